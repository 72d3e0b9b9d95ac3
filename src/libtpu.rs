//! Utilization of a TPU host's chips, as reported over gRPC by the libtpu of the process that holds them. libtpu
//! listens on the host's localhost only; the caller provides a stream to it.
//!
//! libtpu serves this while a process holds the chips, on port [`PORT`] for the first process of a host. Names and
//! meanings are those of Google's `tpu-info`.

use crate::model::sort;
use crate::model::{ChipUse, Text};
use crate::proto::tpu::monitoring::runtime::{
    GetTpuRuntimeStatusRequest, GetTpuRuntimeStatusResponse, Metric, MetricRequest, MetricResponse,
    attr_value, gauge,
};
use crate::proto::tpu_telemetry::TpuSequencerTypeProto;
use crate::proto::{Raw, innermost_cause, tpu};
use bytes::Bytes;
use http::Uri;
use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use prost::Message;
use std::collections::BTreeMap;
use std::future::{Ready, ready};
use std::io;
use std::task::{Context, Poll};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::codegen::Service;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

/// The port of the first process that holds chips of a host (`tpu_info`: `localhost:8431`).
pub const PORT: u16 = 8431;
/// Maximum size of a response in bytes; a host has only a few chips.
const MAX_RESPONSE: usize = 1 << 20;
/// Maximum number of devices that are read; no host has more.
const MAX_DEVICES: usize = 64;

/// Why libtpu's metrics cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LibtpuError {
    /// The other end of the stream does not respond.
    #[error("no response: {0}")]
    Silent(String),
    /// This version of libtpu does not support the requested metric or method.
    #[error("this version of libtpu does not report it")]
    Unknown,
    /// libtpu returned a gRPC error status.
    #[error("libtpu error: {0}")]
    Refused(String),
    /// The response is not a valid libtpu response.
    #[error("unexpected response, not from libtpu: {0}")]
    Malformed(String),
}

/// The execution state of a host's cores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunState {
    /// The run id, a counter, of the tensor core that is furthest behind; none while no core runs a program.
    pub run: Option<i64>,
    /// The error with which a core has stopped.
    pub error: Option<Text>,
}

/// The libtpu at the other end of a stream.
#[derive(Clone, Debug)]
pub struct Libtpu {
    channel: Channel,
}

impl Libtpu {
    /// Connects over this stream.
    pub async fn over<S>(stream: S) -> Result<Self, LibtpuError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        // The address of the metrics service on its host; the stream is already connected to it.
        let endpoint = Endpoint::from_static("http://localhost:8431");
        let channel = endpoint.connect_with_connector(Once(Some(TokioIo::new(stream)))).await;
        Ok(Self { channel: channel.map_err(|e| LibtpuError::Silent(innermost_cause(&e)))? })
    }

    /// The host's chips by number, with duty cycle and memory.
    ///
    /// # Errors
    ///
    /// [`LibtpuError::Unknown`] if libtpu reports neither.
    pub async fn chips(&self) -> Result<Vec<ChipUse>, LibtpuError> {
        let (duty, total, usage) = (
            self.metric(tpu::DUTY_CYCLE).await?,
            self.metric(tpu::MEMORY_TOTAL).await?,
            self.metric(tpu::MEMORY_USAGE).await?,
        );
        let chips = chips(&duty, &total, &usage);
        if chips.is_empty() { Err(LibtpuError::Unknown) } else { Ok(chips) }
    }

    /// The execution state of the host's cores.
    pub async fn state(&self) -> Result<RunState, LibtpuError> {
        let request = GetTpuRuntimeStatusRequest { include_hlo_info: false };
        let answer = self.call(tpu::GET_RUNTIME_STATUS, &request).await?;
        Ok(state(&decode(answer)?))
    }

    /// A metric's values by device; empty if this version of libtpu does not support the metric.
    async fn metric(&self, name: &str) -> Result<BTreeMap<i64, f64>, LibtpuError> {
        let request = MetricRequest { metric_name: name.to_owned() };
        match self.call(tpu::GET_RUNTIME_METRIC, &request).await {
            Ok(answer) => {
                let answer: MetricResponse = decode(answer)?;
                let metrics = answer.metric.map(|metric| metric.metrics).unwrap_or_default();
                Ok(sort::collected(metrics.iter().take(MAX_DEVICES).filter_map(value)))
            }
            Err(LibtpuError::Unknown) => Ok(BTreeMap::new()),
            Err(e) => Err(e),
        }
    }

    async fn call(&self, path: &'static str, message: &impl Message) -> Result<Bytes, LibtpuError> {
        let mut grpc = tonic::client::Grpc::new(self.channel.clone()).max_decoding_message_size(MAX_RESPONSE);
        grpc.ready().await.map_err(|e| LibtpuError::Silent(innermost_cause(&e)))?;
        let request = Request::new(Bytes::from(message.encode_to_vec()));
        let answer = grpc.unary(request, PathAndQuery::from_static(path), Raw).await;
        Ok(answer.map_err(|status| refusal(&status))?.into_inner())
    }
}

/// A connector that returns an open stream, once.
struct Once<S>(Option<TokioIo<S>>);

impl<S> Service<Uri> for Once<S> {
    type Response = TokioIo<S>;
    type Error = io::Error;
    type Future = Ready<io::Result<TokioIo<S>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        ready(self.0.take().ok_or_else(|| io::ErrorKind::NotConnected.into()))
    }
}

fn decode<M: Message + Default>(answer: Bytes) -> Result<M, LibtpuError> {
    M::decode(answer).map_err(|e| LibtpuError::Malformed(e.to_string()))
}

fn refusal(status: &Status) -> LibtpuError {
    match status.code() {
        _ if std::error::Error::source(status).is_some() => LibtpuError::Silent(innermost_cause(status)),
        Code::Unimplemented | Code::NotFound | Code::InvalidArgument => LibtpuError::Unknown,
        code => {
            let message = Text::from(status.message());
            LibtpuError::Refused(format!("{code:?}: {message}"))
        }
    }
}

/// The number and the value of a device; `None` unless the value is finite and not negative.
fn value(metric: &Metric) -> Option<(i64, f64)> {
    let device = match metric.attribute.as_ref()?.value.as_ref()?.attr.as_ref()? {
        attr_value::Attr::IntAttr(device) => *device,
        attr_value::Attr::StringAttr(device) => device.parse().ok()?,
    };
    let value = match metric.gauge.as_ref()?.value.as_ref()? {
        gauge::Value::AsDouble(value) => *value,
        gauge::Value::AsInt(value) => *value as f64,
    };
    (value.is_finite() && value >= 0.0).then_some((device, value))
}

/// Bytes in use and total bytes, if both are known.
type Memory = Option<(u64, u64)>;

/// Combines the metrics of devices into chips. A chip of v2, v3 or 7x consists of two devices: the duty cycle then has
/// half as many values as memory (`get_chip_usage` in tpu-info), and the chip has the memory of both.
fn chips(duty: &BTreeMap<i64, f64>, total: &BTreeMap<i64, f64>, usage: &BTreeMap<i64, f64>) -> Vec<ChipUse> {
    let each = if duty.len() * 2 == total.len() { 2 } else { 1 };
    let memory: Vec<(i64, Option<(u64, u64)>)> = total
        .iter()
        .map(|(device, total)| (*device, usage.get(device).map(|used| (*used as u64, *total as u64))))
        .collect();
    let sum = |devices: &[(i64, Option<(u64, u64)>)]| {
        devices.iter().map(|(_, memory)| *memory).try_fold((0u64, 0u64), |(used, all), memory| {
            let (u, a) = memory?;
            Some((used.saturating_add(u), all.saturating_add(a)))
        })
    };
    let mut memories = memory.chunks(each).map(|devices| (devices[0].0, sum(devices)));
    let chip = |device: i64, duty_percent: Option<f64>, memory| {
        let duty_percent = duty_percent.map(|duty| duty.min(100.0));
        Some(ChipUse { number: u32::try_from(device).ok()?, name: Text::default(), duty_percent, memory })
    };
    if each == 2 || duty.keys().eq(total.keys()) {
        return duty
            .iter()
            .filter_map(|(device, duty)| chip(*device, Some(*duty), memories.next().and_then(|(_, m)| m)))
            .collect();
    }
    let mut all: BTreeMap<i64, (Option<f64>, Memory)> =
        sort::collected(memories.map(|(device, memory)| (device, (None, memory))));
    for (device, duty) in duty {
        all.entry(*device).or_default().0 = Some(*duty);
    }
    all.into_iter().filter_map(|(device, (duty, memory))| chip(device, duty, memory)).collect()
}

/// The run of the core that is furthest behind. A core has several sequencers: its tensor core sequencer counts, or, if
/// there is none, the sequencer that is furthest ahead.
fn state(status: &GetTpuRuntimeStatusResponse) -> RunState {
    let main = TpuSequencerTypeProto::TpuSequencerTypeTensorCoreSequencer;
    let run = |core: &crate::proto::tpu_telemetry::CurrentCoreStateSummary| {
        let runs = |only: bool| {
            let of = core.sequencer_info.iter().filter(move |s| !only || s.sequencer_type() == main);
            of.filter_map(|sequencer| sequencer.run_id).max()
        };
        runs(true).or_else(|| runs(false))
    };
    let errors = status.core_states.values().filter_map(|core| core.error_message.as_deref());
    RunState {
        run: status.core_states.values().filter_map(run).min(),
        error: errors.filter(|error| !error.is_empty()).map(Text::from).next(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn by_device(values: &[f64]) -> BTreeMap<i64, f64> {
        (0..).zip(values.iter().copied()).collect()
    }

    #[test]
    fn a_chip_of_two_devices_has_the_memory_of_both() {
        let all = chips(&by_device(&[50.0, 60.0]), &by_device(&[8.0; 4]), &by_device(&[1.0, 2.0, 3.0, 4.0]));
        let all: Vec<_> = all.iter().map(|c| (c.number, c.duty_percent, c.memory)).collect();
        assert_eq!(all, [(0, Some(50.0), Some((3, 16))), (1, Some(60.0), Some((7, 16)))]);
    }

    #[test]
    fn incomplete_metrics_are_shown() {
        let all = chips(&by_device(&[130.0]), &BTreeMap::new(), &BTreeMap::new());
        assert_eq!((all.len(), all[0].duty_percent, all[0].memory), (1, Some(100.0), None));
        let all = chips(&BTreeMap::new(), &by_device(&[8.0, 8.0]), &by_device(&[1.0]));
        let all: Vec<_> = all.iter().map(|c| (c.number, c.duty_percent, c.memory)).collect();
        assert_eq!(all, [(0, None, Some((1, 8))), (1, None, None)]);
        assert!(chips(&BTreeMap::new(), &BTreeMap::new(), &by_device(&[1.0])).is_empty());
    }

    proptest! {
        #[test]
        fn malformed_responses_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), duty in proptest::collection::btree_map(any::<i64>(), any::<f64>(), 0..9), total in proptest::collection::btree_map(any::<i64>(), any::<f64>(), 0..9)) {
            let _ = chips(&duty, &total, &duty);
            if let Ok(answer) = GetTpuRuntimeStatusResponse::decode(&bytes[..]) {
                let _ = state(&answer);
            }
            if let Ok(answer) = MetricResponse::decode(&bytes[..]) {
                let metrics = answer.metric.map(|m| m.metrics).unwrap_or_default();
                prop_assert!(metrics.iter().filter_map(value).all(|(_, v)| v.is_finite() && v >= 0.0));
            }
        }
    }
}
