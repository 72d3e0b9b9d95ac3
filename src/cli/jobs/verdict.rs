//! The end of a command that waited for a job: its message and exit code.

use super::follow::{FollowError, Following};
use crate::model::{JobStatus, SubmissionId};
use std::process::ExitCode;

/// Exit code when the job ended without success.
pub(super) const DID_NOT_SUCCEED: u8 = 3;

/// Exit code when the job has not ended within the time limit.
pub(in crate::cli) const TIMED_OUT: u8 = 4;

/// Prints how the job ended and returns the exit code for it.
pub(super) fn conclude(
    following: &Following<'_>,
    id: &SubmissionId,
    ended: Result<JobStatus, FollowError>,
) -> ExitCode {
    match ended {
        Ok(status) => {
            eprintln!("{id} {}", status.label());
            verdict(status)
        }
        Err(FollowError::GaveUp) => {
            following.gave_up(id);
            ExitCode::from(TIMED_OUT)
        }
        Err(FollowError::Lost(why)) => {
            eprintln!("{why}");
            ExitCode::from(DID_NOT_SUCCEED)
        }
    }
}

pub(super) fn verdict(ended: JobStatus) -> ExitCode {
    if ended == JobStatus::Succeeded { ExitCode::SUCCESS } else { ExitCode::from(DID_NOT_SUCCEED) }
}
