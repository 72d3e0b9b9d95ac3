//! One REST call: authorized, limited in time and size; a response that is not JSON has its own error.

use super::GcpError;
use super::client::{Effect, Inner};
use http::HeaderMap;
use reqwest::Method;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;

/// Maximum size of one response in bytes; a page of 500 instances with their metadata has a few megabytes.
const MAX_BODY: usize = 64 << 20;
/// Maximum number of pages of one list.
const PAGES: usize = 200;

pub(super) struct Call<'a> {
    pub method: Method,
    /// The full URL without its query.
    pub url: String,
    pub query: &'a [(&'a str, &'a str)],
    pub body: Option<&'a Value>,
}

impl Inner {
    /// Sends the request; [`super::client::Attempts`] describes when it is repeated.
    pub(super) async fn call(&self, call: &Call<'_>) -> Result<Value, GcpError> {
        read(&self.text(call).await?)
    }

    /// The response's JSON, as bytes.
    async fn text(&self, call: &Call<'_>) -> Result<Vec<u8>, GcpError> {
        let project = call.url.split_once("/projects/").map_or("", |(_, rest)| rest);
        let project = project.split('/').next().unwrap_or_default();
        let project = project.strip_suffix(":testIamPermissions").unwrap_or(project);
        let effect = if call.method == Method::GET { Effect::None } else { Effect::Change };
        let service = call.url.split_once("/projects/").map_or(&*call.url, |(service, _)| service);
        let mut attempts = self.attempts(service, project, effect);
        loop {
            let headers = attempts.authorized().await?;
            match self.once(call, headers).await {
                Ok(text) => return Ok(text),
                Err(e) => attempts.again(e).await?,
            }
        }
    }

    /// `GET url`.
    pub(super) async fn get(&self, url: &str, query: &[(&str, &str)]) -> Result<Value, GcpError> {
        self.call(&Call { method: Method::GET, url: url.to_owned(), query, body: None }).await
    }

    /// Every page of a list.
    pub(super) async fn pages<T: DeserializeOwned>(
        &self,
        url: &str,
        query: &[(&str, &str)],
    ) -> Result<Vec<T>, GcpError> {
        let mut pages = Vec::new();
        let mut token = String::new();
        while pages.len() < PAGES {
            let mut query = query.to_vec();
            if !token.is_empty() {
                query.push(("pageToken", &token));
            }
            let call = Call { method: Method::GET, url: url.to_owned(), query: &query, body: None };
            let text = self.text(&call).await?;
            let next = read::<Next>(&text)?.next_page_token.unwrap_or_default();
            pages.push(read(&text)?);
            if next.is_empty() || next == token {
                return Ok(pages);
            }
            token = next;
        }
        Err(GcpError::Refused { code: 200, message: format!("the list has more than {PAGES} pages") })
    }

    async fn once(&self, call: &Call<'_>, headers: HeaderMap) -> Result<Vec<u8>, GcpError> {
        let mut request =
            self.http()?.request(call.method.clone(), &call.url).headers(headers).query(call.query);
        if let Some(body) = call.body {
            request = request.header(http::header::CONTENT_TYPE, "application/json").body(body.to_string());
        }
        let mut answer = request.send().await.map_err(|e| GcpError::from_chain(&e))?;
        let (code, headers) = (answer.status().as_u16(), answer.headers().clone());
        let mut text = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(|e| GcpError::from_chain(&e))? {
            text.extend_from_slice(&chunk);
            if text.len() > MAX_BODY {
                return Err(GcpError::Refused { code, message: "the response is larger than 64 MB".into() });
            }
        }
        if serde_json::from_slice::<IgnoredAny>(&text).is_err() {
            return Err(GcpError::not_json(code, &String::from_utf8_lossy(&text)));
        }
        if code < 400 {
            Ok(text)
        } else {
            Err(GcpError::from_body(code, &read(&text)?).with_headers(&headers))
        }
    }
}

/// The token of a list's next page.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Next {
    next_page_token: Option<String>,
}

fn read<T: DeserializeOwned>(text: &[u8]) -> Result<T, GcpError> {
    serde_json::from_slice(text).map_err(|e| GcpError::not_json(200, &e.to_string()))
}
