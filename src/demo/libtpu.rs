//! The runtime metrics that libtpu serves on a TPU host while a program holds the chips: unary gRPC without TLS.

use super::connection::Body;
use super::gcs::{Status, answer, parse, refusal};
use crate::model::sort;
use crate::proto::tpu;
use crate::proto::tpu::monitoring::runtime as wire;
use crate::proto::tpu_telemetry as cores;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use std::io;
use tokio::io::{AsyncRead, AsyncWrite};

/// The port on which a host serves its metrics.
pub(super) const PORT: u32 = 8431;

/// A chip as reported by libtpu.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimChip {
    /// Duty cycle in percent.
    pub duty: f64,
    /// Bytes of memory in use.
    pub used: u64,
    /// Bytes of memory.
    pub total: u64,
}

/// The state of a host, as libtpu reports it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TpuRuntime {
    /// Host name.
    pub host: String,
    /// Number of the host's first core in the slice.
    pub first_core: i32,
    /// The chips; each is one device with one core.
    pub chips: Vec<SimChip>,
    /// Number of programs that the cores have started; `None` for a version that does not report it.
    pub run: Option<i64>,
}

/// Serves the metrics on one connection.
pub async fn serve(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    runtime: impl Fn() -> TpuRuntime + Clone + Send + 'static,
) {
    let service = service_fn(move |request| call(request, runtime()));
    // An error means that the client disconnected.
    let _ = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn call(request: Request<Incoming>, runtime: TpuRuntime) -> io::Result<Response<Body>> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.map_err(io::Error::other)?.to_bytes();
    let outcome = body.get(5..).ok_or_else(Status::malformed).and_then(|message| match path.as_str() {
        tpu::GET_RUNTIME_METRIC => metric(&parse::<wire::MetricRequest>(message)?.metric_name, &runtime),
        tpu::GET_RUNTIME_STATUS => {
            parse::<wire::GetTpuRuntimeStatusRequest>(message)?;
            status(&runtime)
        }
        _ => Err(Status::unimplemented()),
    });
    Ok(outcome.map_or_else(|status| refusal(&status), answer))
}

fn metric(name: &str, runtime: &TpuRuntime) -> Result<Bytes, Status> {
    use wire::gauge::Value;
    let value: fn(&SimChip) -> Value = match name {
        tpu::DUTY_CYCLE => |chip| Value::AsDouble(chip.duty),
        tpu::MEMORY_TOTAL => |chip| Value::AsInt(chip.total as i64),
        tpu::MEMORY_USAGE => |chip| Value::AsInt(chip.used as i64),
        _ => return Err(Status::unimplemented()),
    };
    let one = |(device, chip): (i64, &SimChip)| wire::Metric {
        attribute: Some(wire::Attribute {
            key: "device-id".to_owned(),
            value: Some(wire::AttrValue { attr: Some(wire::attr_value::Attr::IntAttr(device)) }),
        }),
        gauge: Some(wire::Gauge { value: Some(value(chip)) }),
    };
    let metrics = (0..).zip(&runtime.chips).map(one).collect();
    let metric = wire::TpuMetric { name: name.to_owned(), metrics };
    Ok(wire::MetricResponse { metric: Some(metric) }.encode_to_vec().into())
}

fn status(runtime: &TpuRuntime) -> Result<Bytes, Status> {
    let Some(run) = runtime.run else { return Err(Status::unimplemented()) };
    let core = |(number, _): (i32, &SimChip)| {
        let id = runtime.first_core + number;
        let main = cores::TpuSequencerTypeProto::TpuSequencerTypeTensorCoreSequencer;
        let state = cores::CurrentCoreStateSummary {
            core_id: Some(cores::TpuCoreIdentifier { global_core_id: Some(id), chip_id: Some(id) }),
            sequencer_info: vec![cores::SequencerInfo {
                sequencer_type: Some(main.into()),
                run_id: Some(run),
            }],
            error_message: None,
        };
        (id, state)
    };
    let core_states = sort::collected((0..).zip(&runtime.chips).map(core));
    let reply = wire::GetTpuRuntimeStatusResponse { host_name: Some(runtime.host.clone()), core_states };
    Ok(reply.encode_to_vec().into())
}
