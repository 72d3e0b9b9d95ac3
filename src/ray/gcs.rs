//! Unary gRPC calls to the GCS.
//!
//! Requests contain only [`NodeId`]s and names: an id of any length other than 28 bytes crashes the real
//! `gcs_server`, and the cluster with it. Decoding is left to the callers.

use super::client::{self, Client, Meter};
use super::{RayError, memory_estimate};
use crate::model::Secret;
use crate::proto::{self, Raw, innermost_cause};
use bytes::Bytes;
use http::uri::PathAndQuery;
use prost::Message;
use std::time::Duration;
use tonic::client::GrpcService;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

/// A connection to one GCS, opened by the first call.
#[derive(Clone, Debug)]
pub(super) struct Gcs {
    channel: Channel,
    client: Client,
    authorization: Option<MetadataValue<Ascii>>,
    /// Timeout of a call.
    timeout: Duration,
    /// Maximum size of a response in bytes.
    max_size: usize,
}

impl Gcs {
    /// A new connection to the client's GCS; `None` when it has none.
    pub fn of(client: &Client) -> Result<Option<Self>, RayError> {
        let address = match &client.inner.endpoint {
            client::Endpoint::Direct { gcs: None, .. } => return Ok(None),
            client::Endpoint::Direct { gcs: Some(address), .. } => format!("http://{address}"),
            client::Endpoint::Sockets { gcs, .. } => format!("unix:{}", gcs.display()),
        };
        let limits = client.inner.limits;
        let bad = |_| RayError::Setup(format!("{address:?} is not a GCS address"));
        let endpoint = Endpoint::from_shared(address.clone())
            .map_err(bad)?
            .connect_timeout(limits.connect)
            .tcp_nodelay(true)
            // The state of a large cluster is one message, which a small window would stall.
            .initial_stream_window_size(4 << 20)
            .initial_connection_window_size(8 << 20);
        let authorization = match &client.inner.token {
            None => None,
            Some(token) => Some(bearer(token)?),
        };
        Ok(Some(Self {
            channel: endpoint.connect_lazy(),
            client: client.clone(),
            authorization,
            timeout: limits.call,
            max_size: limits.body,
        }))
    }

    fn meter(&self) -> &Meter {
        self.client.meter()
    }

    /// One call; the response is returned undecoded, so that a large one can be decoded off the event loop.
    pub async fn call(&self, path: &'static str, message: &impl Message) -> Result<Bytes, RayError> {
        let mut request = Request::new(Bytes::from(message.encode_to_vec()));
        if let Some(value) = &self.authorization {
            request.metadata_mut().insert("authorization", value.clone());
        }
        self.meter().gcs.ask();
        let mut grpc =
            tonic::client::Grpc::new(self.channel.clone()).max_decoding_message_size(self.max_size);
        let answer = async {
            grpc.ready().await.map_err(|e| RayError::Silent(cause_of(&e)))?;
            let answer = grpc.unary(request, PathAndQuery::from_static(path), Raw).await;
            answer.map_err(|s| self.refusal(&s))
        };
        // The channel's own timeout covers the headers only; the body may stall too.
        let answer = tokio::time::timeout(self.timeout, answer).await;
        let body = answer.map_err(|_| RayError::Silent("the GCS timed out".to_owned()))??.into_inner();
        self.meter().gcs.receive(body.len());
        Ok(body)
    }

    /// Adds the token.
    pub(super) fn authorize(&self, headers: &mut http::HeaderMap) -> Result<(), RayError> {
        if let Some(token) = &self.client.inner.token {
            let mut value =
                http::HeaderValue::try_from(format!("Bearer {}", token.expose())).map_err(|_| not_sent())?;
            value.set_sensitive(true);
            headers.insert(http::header::AUTHORIZATION, value);
        }
        Ok(())
    }

    /// Sends a request with a body that the caller has encoded.
    pub(super) async fn send(
        &self,
        request: http::Request<tonic::body::Body>,
    ) -> Result<http::Response<tonic::body::Body>, RayError> {
        let mut channel = self.channel.clone();
        self.meter().gcs.ask();
        let silent = |e: tonic::transport::Error| RayError::Silent(cause_of(&e));
        std::future::poll_fn(|cx| GrpcService::poll_ready(&mut channel, cx)).await.map_err(silent)?;
        GrpcService::call(&mut channel, request).await.map_err(silent)
    }

    /// The error of an incomplete body.
    pub(super) fn body_error(&self, status: &Status) -> RayError {
        match status.code() {
            // An error of the connection, not of the GCS.
            Code::Unknown | Code::Internal | Code::Cancelled => RayError::Silent(cause_of(status)),
            _ => self.refusal(status),
        }
    }

    pub(super) fn refusal(&self, status: &Status) -> RayError {
        match status.code() {
            // Only an error of the connection itself has a cause.
            _ if std::error::Error::source(status).is_some() => RayError::Silent(cause_of(status)),
            Code::Unauthenticated if self.authorization.is_some() => RayError::TokenRefused,
            Code::Unauthenticated => RayError::TokenMissing,
            Code::Unavailable | Code::DeadlineExceeded => RayError::Silent(cause_of(status)),
            code => {
                let message = super::error::message_of(status.message().as_bytes());
                RayError::Grpc(format!("{code:?}: {}", self.client.without_token(&message)))
            }
        }
    }

    /// One value of the internal key-value store; `None` when there is no such key.
    pub async fn kv(&self, key: Bytes, namespace: &'static [u8]) -> Result<Option<Bytes>, RayError> {
        let request = proto::InternalKvGetRequest { key, namespace: Bytes::from_static(namespace) };
        let body = self.call(proto::path::KV_GET, &request).await?;
        let reply: proto::InternalKvGetReply = decode(proto::path::KV_GET, body)?;
        match reply.status {
            Some(s) if s.code == proto::STATUS_NOT_FOUND => Ok(None),
            status => succeeded(status.as_ref()).map(|()| Some(reply.value)),
        }
    }

    /// Whether the GCS requires a token (`CheckAlive` without ids); an error when it does not respond.
    pub async fn wants_token(&self) -> Result<bool, RayError> {
        match self.call(proto::path::CHECK_ALIVE, &proto::CheckAliveRequest::default()).await {
            Ok(_) => Ok(self.authorization.is_some()),
            Err(e) if e.is_token() => Ok(true),
            Err(e) => Err(e),
        }
    }

    /// Ray's version, from `CheckAlive` without ids.
    pub async fn version(&self) -> Result<String, RayError> {
        let body = self.call(proto::path::CHECK_ALIVE, &proto::CheckAliveRequest::default()).await?;
        let reply: proto::CheckAliveReply = decode(proto::path::CHECK_ALIVE, body)?;
        succeeded(reply.status.as_ref())?;
        Ok(reply.ray_version)
    }
}

/// Decodes a response, unless it would use too much memory.
pub(super) fn decode<M: Message + Default>(path: &str, body: Bytes) -> Result<M, RayError> {
    memory_estimate::check(path, &body)?;
    M::decode(body).map_err(|e| RayError::Malformed { route: path.to_owned(), why: e.to_string() })
}

/// Fails unless the status inside a reply is a success.
pub(super) fn succeeded(status: Option<&proto::GcsStatus>) -> Result<(), RayError> {
    match status {
        Some(s) if s.code != 0 => Err(RayError::Grpc(format!(
            "status {}: {}",
            s.code,
            super::error::message_of(s.message.as_bytes())
        ))),
        _ => Ok(()),
    }
}

fn bearer(token: &Secret) -> Result<MetadataValue<Ascii>, RayError> {
    let mut value: MetadataValue<Ascii> =
        format!("Bearer {}", token.expose()).parse().map_err(|_| not_sent())?;
    value.set_sensitive(true);
    Ok(value)
}

fn not_sent() -> RayError {
    RayError::Setup("the token contains characters that are not allowed in a gRPC header".to_owned())
}

fn cause_of(error: &(dyn std::error::Error + 'static)) -> String {
    super::error::message_of(innermost_cause(error).as_bytes())
}
