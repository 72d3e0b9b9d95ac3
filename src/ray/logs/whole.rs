//! A whole log in pieces, from its first line to its current end.

use super::super::RayError;
use super::super::client::{Client, encoded, silent};
use super::polled::Polled;
use bytes::Bytes;
use reqwest::{Method, Response};

/// A log that is read in pieces, so that it is never held in memory completely.
#[derive(Debug)]
pub struct WholeLog {
    client: Client,
    /// None for an empty log.
    response: Option<Response>,
}

impl Client {
    /// Opens a whole file, from its first line to its current end (`GET /api/v0/logs/file` with `lines=-1`).
    ///
    /// # Errors
    ///
    /// The errors of a request, and [`RayError::Silent`] for a job that has no driver yet.
    pub async fn whole_log(&self, of: &Polled) -> Result<WholeLog, RayError> {
        let (node, file, name) = match of {
            Polled::Job(id) => {
                let node = self.job(id).await?.job.driver_node;
                let none = || RayError::Silent("the job has no driver yet, so it has no log".to_owned());
                let file = format!("submission_id={}", encoded(id.0.raw()));
                (node.ok_or_else(none)?, file, id.driver_log())
            }
            Polled::File(node, name) => {
                (*node, format!("filename={}", encoded(name.raw())), name.raw().to_owned())
            }
        };
        let route = format!("/api/v0/logs/file?node_id={node}&{file}&lines=-1");
        let response = match self.open(self.request(Method::GET, &route)).await {
            Ok(response) => Some(response),
            Err(e) => {
                self.or_empty(Err(e), node, &name).await?;
                None
            }
        };
        Ok(WholeLog { client: self.clone(), response })
    }
}

impl WholeLog {
    /// The next piece; none at the end.
    ///
    /// # Errors
    ///
    /// The connection was lost, or nothing was received within the timeout of a call.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, RayError> {
        let stalled = |_| RayError::Silent("the log file stalled".to_owned());
        let Some(response) = &mut self.response else { return Ok(None) };
        let read = tokio::time::timeout(self.client.inner.limits.call, response.chunk());
        let chunk = read.await.map_err(stalled)?.map_err(|e| silent(&e))?;
        self.client.meter().http.receive(chunk.as_ref().map_or(0, Bytes::len));
        Ok(chunk)
    }
}
