//! The label selectors of jobs, which a backup adds to the submissions: Ray does not record them.

use crate::model::text::printable;
use crate::ray::{Client, RayError, Recorded};

/// The submissions that have not ended, with their label selectors; and a warning if these cannot be read: a head that
/// has to be restarted may fail to list its actors.
pub(super) async fn open_submissions(client: &Client) -> Result<(Vec<Recorded>, Option<String>), RayError> {
    let mut open = client.open_submissions().await?;
    if open.is_empty() {
        return Ok((open, None));
    }
    match client.label_selectors().await {
        Ok(mut selectors) => {
            for Recorded { submission, .. } in &mut open {
                submission.entrypoint_label_selector = selectors.remove(&submission.id()).unwrap_or_default();
            }
            Ok((open, None))
        }
        Err(e) => Ok((open, Some(unread(&e)))),
    }
}

fn unread(error: &RayError) -> String {
    let why = error.to_string();
    format!("label selectors cannot be read ({}); a job that has one is saved without it", printable(&why))
}
