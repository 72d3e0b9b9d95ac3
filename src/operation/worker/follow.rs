//! A queued resource on its way: its states until its TPU VM is up.

use super::super::trouble;
use super::{LOOK, problem};
use crate::gcp::{Google, TpuPlace};
use crate::model::cloud::{CloudView, QueuedState, VmState};
use crate::model::{Problem, Timestamp};

/// Looks at Google that may fail one after another.
const DEAF: u32 = 15;

/// Follows a queued resource until its TPU VM is up; the addresses of its hosts. `tell` hears of each state.
pub(super) async fn follow(
    google: &Google,
    place: &TpuPlace,
    name: &str,
    mut tell: impl FnMut(&str),
) -> Result<Vec<String>, Problem> {
    let (mut last, mut deaf) = (String::new(), 0);
    loop {
        match google.tpus(&place.project, &place.zone, Timestamp::now()).await {
            Ok(view) => {
                deaf = 0;
                let (word, hosts) = standing(&view, name)?;
                if word != last {
                    tell(&word);
                    last = word;
                }
                if let Some(hosts) = hosts {
                    return Ok(hosts);
                }
            }
            Err(e) if deaf < DEAF => {
                deaf += 1;
                tracing::warn!("{name}: {e}");
            }
            Err(e) => return Err(problem(&e)),
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Its state in words, and its hosts once it is up.
fn standing(view: &CloudView, name: &str) -> Result<(String, Option<Vec<String>>), Problem> {
    let Some(queued) = view.queued.iter().find(|q| q.name.raw() == name) else {
        if !view.complete {
            return Ok(("google could not list everything".into(), None));
        }
        return Err(trouble(
            format!("{name} is gone: somebody has deleted it"),
            "resume to ask google anew, or ask who did that",
        ));
    };
    let again = format!(
        "leave this as it is (--abandon); `remove-worker {name}` deletes it; then add it again, perhaps with \
         another --capacity"
    );
    match queued.state {
        QueuedState::Failed => {
            let why =
                queued.error.as_ref().map_or_else(|| "google does not say why".into(), ToString::to_string);
            Err(trouble(format!("{name} is refused: {why}"), again))
        }
        QueuedState::Suspended => Err(trouble(
            format!("{name} is suspended: its TPU VM was taken away and does not come back"),
            again,
        )),
        QueuedState::Deleting => Err(trouble(format!("{name} is being deleted"), "ask who did that")),
        QueuedState::Active => {
            let vm = view.vms.iter().find(|vm| queued.nodes.contains(&vm.name));
            let Some(vm) = vm else { return Ok(("active".into(), None)) };
            if vm.state.is_gone() {
                return Err(trouble(format!("{name} was {} already", vm.state.word()), again));
            }
            let hosts: Vec<String> = vm.hosts.iter().map(|h| h.raw().to_owned()).collect();
            let is_up = vm.state == VmState::Ready && !hosts.is_empty();
            Ok((format!("active, its TPU VM is {}", vm.state.word()), is_up.then_some(hosts)))
        }
        state => Ok((state.word().into(), None)),
    }
}
