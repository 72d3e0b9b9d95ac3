//! The client of libtpu's metrics and the double of their service are checked against the classes that Google generates
//! for it (`tpu-info`): the client reads from a server of those classes, and `tpu-info` reads from the double.

use marin_tui::demo::libtpu::{SimChip, TpuRuntime, serve};
use marin_tui::libtpu::{Libtpu, LibtpuError};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use tokio::net::{TcpListener, TcpStream};

const GIB: u64 = 1 << 30;

fn google(arguments: &[&str]) -> Command {
    // This binary is in target/debug/deps.
    let target = std::env::current_exe().unwrap().ancestors().nth(3).unwrap().to_path_buf();
    let python = target.join("google-clients/bin/python");
    assert!(python.exists(), "run tests/bed/setup: there is no {}", python.display());
    let mut command = Command::new(python);
    command.arg(format!("{}/tests/google/libtpu.py", env!("CARGO_MANIFEST_DIR"))).args(arguments);
    // No proxy of this machine applies.
    command.env("NO_PROXY", "127.0.0.1,localhost");
    command
}

#[tokio::test]
async fn the_client_reads_what_google_s_classes_serve() {
    let mut server = google(&["serve"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut port = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut port).unwrap();
    let stream = TcpStream::connect(format!("127.0.0.1:{}", port.trim())).await.unwrap();
    let libtpu = Libtpu::over(stream).await.unwrap();
    let chips = libtpu.chips().await.unwrap();
    let chips: Vec<_> = chips.iter().map(|c| (c.number, c.duty_percent, c.memory)).collect();
    let memory = |used: u64| Some((used * GIB, 192 * GIB));
    assert_eq!(chips, [(0, Some(97.25), memory(3)), (1, Some(12.5), memory(7))]);
    let state = libtpu.state().await.unwrap();
    assert_eq!(state.run, Some(8123), "the run of the slowest TensorCore");
    assert_eq!(state.error.unwrap().raw(), "halted: scalar core");
    drop(server.stdin.take());
    assert!(server.wait().unwrap().success());
}

fn runtime(run: Option<i64>) -> TpuRuntime {
    let chip = |n: u64| SimChip { duty: 90.5 + n as f64, used: n * GIB, total: 32 * GIB };
    TpuRuntime { host: "t1v-n-1-w-1".into(), first_core: 4, chips: (0..4).map(chip).collect(), run }
}

/// Starts a double, which ends with the test, and returns its address.
async fn double(runtime: TpuRuntime) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let runtime = runtime.clone();
            tokio::spawn(serve(stream, move || runtime.clone()));
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn google_s_client_reads_what_the_double_serves() {
    let address = double(runtime(Some(8123))).await;
    let out = google(&["ask", &address]).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let answer: Value = serde_json::from_slice(&out.stdout).unwrap();
    // The fields of tpu-info's `Usage`: device, memory in use, memory, duty cycle.
    let usage: Vec<Value> = (0..4).map(|n| json!([n, n * GIB, 32 * GIB, 90.5 + n as f64])).collect();
    assert_eq!(answer["usage"], json!(usage));
    let main = "TPU_SEQUENCER_TYPE_TENSOR_CORE_SEQUENCER";
    assert_eq!(answer["runs"], json!([[4, main, 8123], [5, main, 8123], [6, main, 8123], [7, main, 8123]]));
}

#[tokio::test]
async fn the_client_reads_the_double_as_google_s_client_does() {
    let stream = TcpStream::connect(double(runtime(None)).await).await.unwrap();
    let libtpu = Libtpu::over(stream).await.unwrap();
    let chips = libtpu.chips().await.unwrap();
    assert_eq!((chips.len(), chips[3].duty_percent), (4, Some(93.5)));
    assert_eq!(chips[3].memory, Some((3 * GIB, 32 * GIB)));
    assert_eq!(libtpu.state().await, Err(LibtpuError::Unknown), "this version does not report its state");
}

#[tokio::test]
async fn a_server_that_is_not_libtpu_is_reported_without_waiting() {
    let (ours, theirs) = tokio::io::duplex(64);
    drop(theirs);
    let libtpu = Libtpu::over(ours).await;
    let result = match libtpu {
        Ok(libtpu) => libtpu.chips().await.map(drop),
        Err(e) => Err(e),
    };
    assert!(matches!(result, Err(LibtpuError::Silent(_))), "{result:?}");
    let (ours, mut theirs) = tokio::io::duplex(4096);
    tokio::spawn(async move {
        use tokio::io::AsyncWriteExt;
        let _ = theirs.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    });
    let result = match Libtpu::over(ours).await {
        Ok(libtpu) => libtpu.chips().await.map(drop),
        Err(e) => Err(e),
    };
    assert!(matches!(result, Err(LibtpuError::Silent(_))), "{result:?}");
}
