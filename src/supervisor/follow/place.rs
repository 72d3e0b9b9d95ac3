//! Keeps track of whether the driver whose log is followed runs on the head.

use super::super::driver::{DriverPlace, MAX_UNANSWERED, ask_head, driver_place};
use super::Follower;
use crate::model::Job;

impl Follower {
    /// Asks where the job's driver runs, unless it is known to run on the head. Another file may be that of the same
    /// job after a restart of the cluster, with another driver.
    pub(super) fn place(&self) -> impl Future<Output = DriverPlace> + use<> {
        let access = self.access_watch.borrow().clone();
        let job = self.job.clone().filter(|_| !self.is_on_head());
        async move {
            let (Some(access), Some(job)) = (access, job) else { return DriverPlace::Unknown };
            driver_place(&access.client, &job, access.head).await
        }
    }

    /// Whether the driver that writes the open file is known to run on the head.
    fn is_on_head(&self) -> bool {
        self.is_placed && self.position.known().is_some()
    }

    /// Where the driver of this job runs. Ray is asked for the head's id only if that is needed and not known.
    pub(super) async fn place_of(&mut self, job: &Job) -> DriverPlace {
        if job.driver_node.is_some() && self.is_on_head() {
            return DriverPlace::Head;
        }
        let access = self.access_watch.borrow().clone().filter(|_| job.driver_node.is_some());
        let head = match access {
            Some(access) => ask_head(&access.client, access.head).await,
            None => None,
        };
        let has_ended = job.status.is_ended();
        self.unanswered = match &head {
            Some(Err(error)) if has_ended && error.is_final() && !error.is_token() => MAX_UNANSWERED,
            Some(Err(_)) | None if has_ended => self.unanswered.saturating_add(1),
            _ => 0,
        };
        DriverPlace::of(job, head.and_then(Result::ok))
    }

    /// Records where the job's driver runs. Returns whether that is another node.
    pub(super) fn take_place(&mut self, place: DriverPlace) -> bool {
        match place {
            DriverPlace::Unknown => {}
            // A file that replaced another one may be that of another driver.
            DriverPlace::NotStarted | DriverPlace::Never => {
                (self.is_placed, self.is_from_start) = (false, true);
            }
            DriverPlace::Head => self.is_placed = true,
            DriverPlace::Elsewhere => return true,
        }
        false
    }

    /// Finds out whether the job's driver runs on another node.
    pub(super) async fn is_elsewhere(&mut self) -> bool {
        let place = self.place().await;
        self.take_place(place)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{LogFile, Start};
    use super::*;
    use crate::logs::LineSplitter;
    use crate::model::{ClusterSpec, Provider, SubmissionId};
    use crate::ray::{LogEvent, LogStream};
    use std::sync::Arc;
    use tokio::sync::watch;

    #[tokio::test]
    async fn the_driver_of_a_job_that_is_submitted_again_may_be_on_another_node() {
        let (_access, access_watch) = watch::channel(None);
        let spec = Arc::new(ClusterSpec::sample("lab", Provider::Local));
        let id = SubmissionId("a".into());
        let mut stream = LogStream::spawn(LineSplitter::ON_A_SCREEN, move |out| async move {
            let (file, from) = (LogFile::of_job(&id), (Start::Bytes(1), None));
            let mut follower = Follower::new(access_watch, spec, (Some(id), None, file), from, out);
            assert!(!follower.take_place(DriverPlace::Head) && follower.is_placed);
            assert!(!follower.take_place(DriverPlace::NotStarted));
            let known = format!("{} {}", follower.is_placed, follower.is_from_start);
            follower.note(&known).await
        });
        assert_eq!(stream.next().await, Some(LogEvent::Note("false true".to_owned())));
    }
}
