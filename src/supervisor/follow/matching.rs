//! Searches the existing lines of a log when following it begins.

use super::super::log_file::ReadError;
use super::{Ended, Follower};
use crate::ray::Closed;
use crate::ssh::Remote;

impl Follower {
    /// Passes on the matching lines of the existing part of the file. Reading continues after its last complete line.
    pub(super) async fn search(&mut self, remote: &Remote) -> Result<Ended, Closed> {
        if self.is_elsewhere().await {
            return Ok(Ended::Elsewhere);
        }
        match self.matching(remote).await? {
            Ok(()) => {
                let opened = self.query.take().and_then(|query| query.opened);
                if let Some(opened) = opened {
                    self.position.read_on(opened.inode, opened.size, &mut self.out).await?;
                }
                Ok(Ended::Again)
            }
            Err(why @ (ReadError::Failed(_) | ReadError::Utf16)) => {
                self.query = None;
                self.note(&format!("cannot search on the head: {why}; reading all lines instead")).await?;
                Ok(Ended::Again)
            }
            Err(ReadError::Replaced) => {
                self.query = None;
                self.unread(ReadError::Replaced).await
            }
            Err(why) => self.unread(why).await,
        }
    }

    /// Reads the result to its end. Lines received before the connection was lost are not passed on again: searching
    /// the same part of a file that only grows gives the same result.
    async fn matching(&mut self, remote: &Remote) -> Result<Result<(), ReadError>, Closed> {
        let Some(query) = &self.query else { return Ok(Ok(())) };
        let mut known = query.received;
        let mut stream = match self.file.matched((remote, &self.spec), query) {
            Ok(stream) => stream,
            Err(why) => return Ok(Err(why)),
        };
        let (opened, mut bytes) = match self.opened(&mut stream).await? {
            Ok((opened, rest)) => (opened, rest),
            Err(why) => return Ok(Err(why)),
        };
        self.out.quiet().await?;
        loop {
            let again = usize::try_from(known).unwrap_or(usize::MAX).min(bytes.len());
            known -= again as u64;
            self.out.feed(&bytes[again..]).await?;
            if let Some(query) = &mut self.query {
                query.opened.get_or_insert(opened);
                query.received += (bytes.len() - again) as u64;
            }
            match self.chunk(&mut stream).await? {
                Ok(Some(more)) => bytes = more.to_vec(),
                Ok(None) => return Ok(Ok(())),
                Err(why) => return Ok(Err(why)),
            }
        }
    }
}
