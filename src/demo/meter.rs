//! Counts the load of clients on a head: connections, requests, bytes on the wire.

use super::locked;
use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The load that clients have caused on a head so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Connections accepted by the dashboard and the GCS.
    pub connections: u64,
    /// Bytes written to them, including headers.
    pub sent: u64,
    /// Bytes read from them.
    pub received: u64,
    /// Requests by route; long path segments (ids) are replaced by `*`.
    pub requests: BTreeMap<String, u64>,
    /// Maximum number of requests processed at the same time.
    pub most_at_once: usize,
}

#[derive(Debug, Default)]
pub(super) struct Meter {
    connections: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
    requests: Mutex<BTreeMap<String, u64>>,
    at_once: AtomicUsize,
    most_at_once: AtomicUsize,
}

/// A request in progress, until this is dropped.
#[must_use]
pub(super) struct InFlight<'a>(&'a Meter);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.at_once.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Meter {
    /// Counts a request.
    pub fn request(&self, path: &str) -> InFlight<'_> {
        let route: Vec<&str> = path.split('/').map(|s| if s.len() > 48 { "*" } else { s }).collect();
        let mut requests = locked(&self.requests);
        *requests.entry(route.join("/")).or_default() += 1;
        let now = self.at_once.fetch_add(1, Ordering::Relaxed) + 1;
        self.most_at_once.fetch_max(now, Ordering::Relaxed);
        InFlight(self)
    }

    pub fn cost(&self) -> Cost {
        Cost {
            connections: self.connections.load(Ordering::Relaxed),
            sent: self.sent.load(Ordering::Relaxed),
            received: self.received.load(Ordering::Relaxed),
            requests: locked(&self.requests).clone(),
            most_at_once: self.most_at_once.load(Ordering::Relaxed),
        }
    }
}

/// A connection whose bytes are counted.
#[derive(Debug)]
pub(super) struct Metered<S> {
    stream: S,
    meter: Arc<Meter>,
}

impl<S> Metered<S> {
    /// Counts a new connection and, from now on, its bytes.
    pub fn new(stream: S, meter: Arc<Meter>) -> Self {
        meter.connections.fetch_add(1, Ordering::Relaxed);
        Self { stream, meter }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.meter.received.fetch_add((buf.filled().len() - before) as u64, Ordering::Relaxed);
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, buf);
        if let Poll::Ready(Ok(n)) = &polled {
            self.meter.sent.fetch_add(*n as u64, Ordering::Relaxed);
        }
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        if let Poll::Ready(Ok(n)) = &polled {
            self.meter.sent.fetch_add(*n as u64, Ordering::Relaxed);
        }
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
