//! The `ray` command of a demo: it creates and deletes heads at the fleet's simulated Google, in seconds where Ray
//! takes minutes, and prints Ray's messages. It is called over a socket in the fleet's directory: the request is the
//! arguments, separated by zero bytes; the response is output lines that start with `+`, and the exit code after `=`.

use super::head_machine::{ADDRESS, HeadMachine};
use crate::task;
use serde_yaml::Value;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;

/// Duration of each step, in real time: the clusters' own clock may be stopped.
const STEP: Duration = Duration::from_secs(1);
/// Maximum size of a command line in bytes.
const MAX_REQUEST: u64 = 64 << 10;
/// Number of login attempts to a head.
const LOGIN_ATTEMPTS: usize = 8;

/// The server of the simulated command. Dropping it closes its socket.
#[derive(Debug)]
pub(super) struct RayCommand(JoinHandle<()>);

impl Drop for RayCommand {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl RayCommand {
    /// Listens at the path `socket` for commands on these heads. Must be called inside a tokio runtime.
    pub fn listen(socket: &Path, heads: Vec<HeadMachine>) -> io::Result<Self> {
        let listener = UnixListener::bind(socket)?;
        let heads: Arc<[HeadMachine]> = heads.into();
        Ok(Self(task::spawn(async move {
            loop {
                // The error is temporary: no file descriptor was free.
                let Ok((stream, _)) = listener.accept().await else {
                    tokio::time::sleep(STEP).await;
                    continue;
                };
                let heads = heads.clone();
                // An error means that the client disconnected.
                task::spawn(async move { answer(stream, &heads).await });
            }
        })))
    }
}

async fn answer(stream: UnixStream, heads: &[HeadMachine]) -> io::Result<()> {
    let (reader, writer) = stream.into_split();
    let arguments = read_arguments(reader).await?;
    let mut output = Output(writer);
    let code = run(&arguments, heads, &mut output).await?;
    output.0.write_all(format!("={code}\n").as_bytes()).await
}

async fn read_arguments(reader: OwnedReadHalf) -> io::Result<Vec<String>> {
    let mut text = String::new();
    reader.take(MAX_REQUEST).read_to_string(&mut text).await?;
    Ok(text.split('\0').map(str::to_owned).collect())
}

/// The output of the command.
struct Output(OwnedWriteHalf);

impl Output {
    async fn line(&mut self, text: &str) -> io::Result<()> {
        self.0.write_all(format!("+{text}\n").as_bytes()).await
    }

    async fn lines(&mut self, all: &[&str]) -> io::Result<()> {
        for line in all {
            self.line(line).await?;
        }
        Ok(())
    }
}

async fn run(arguments: &[String], heads: &[HeadMachine], output: &mut Output) -> io::Result<i32> {
    let (Some(first), Some(last)) = (arguments.first(), arguments.last()) else { return Ok(2) };
    if first == "--version" {
        output.line("ray, version 2.60.0 (simulated)").await?;
        return Ok(0);
    }
    if !["up", "down", "get-head-ip"].contains(&first.as_str()) {
        output.line(&format!("demo: `ray {first}` is not simulated; no ray command was run")).await?;
        return Ok(2);
    }
    let Some(head) = head_of(Path::new(last), heads).await else {
        output.line(&format!("demo: {last} is not a cluster of this demo; no ray command was run")).await?;
        return Ok(1);
    };
    // Ray checks the current state first; two concurrent commands would not see each other's changes.
    let _lock = head.lock().await;
    match first.as_str() {
        "up" if arguments.iter().any(|argument| argument == "--no-restart") && head.has_ray() => {
            let is_confirmed = arguments.iter().any(|argument| argument == "-y");
            update((head, Path::new(last)), is_confirmed, output).await
        }
        "up" => {
            let code = up(head, output).await?;
            if code == 0 {
                write_bootstrap(head, Path::new(last)).await;
            }
            Ok(code)
        }
        "down" => down(head, output).await,
        _ if head.exists() => output.line(ADDRESS).await.map(|()| 0),
        _ => output.line(&format!("Head node of cluster ({}) not found!", head.cluster())).await.map(|()| 1),
    }
}

/// The head of the cluster in a cluster file, if its provider is Google Cloud.
async fn head_of<'a>(file: &Path, heads: &'a [HeadMachine]) -> Option<&'a HeadMachine> {
    let text = tokio::fs::read_to_string(file).await.ok()?;
    let file: Value = serde_yaml::from_str(&text).ok()?;
    let name = file["cluster_name"].as_str().filter(|_| file["provider"]["type"] == "gcp")?;
    heads.iter().find(|head| head.cluster() == name)
}

/// The configuration that `ray up` writes to the head, from the text of a cluster file.
pub(super) fn bootstrap(text: &str) -> Option<Vec<u8>> {
    let config: serde_json::Value = serde_yaml::from_str(text).ok()?;
    serde_json::to_vec(&config).ok()
}

async fn write_bootstrap(head: &HeadMachine, file: &Path) {
    let text = tokio::fs::read_to_string(file).await.unwrap_or_default();
    if let Some(config) = bootstrap(&text) {
        head.shared().write_bootstrap(&config);
    }
}

/// `ray up --no-restart` on a running head. It asks for confirmation first; the line with the question begins with `?`.
async fn update(
    (head, file): (&HeadMachine, &Path),
    is_confirmed: bool,
    output: &mut Output,
) -> io::Result<i32> {
    output
        .lines(&[
            &format!("Cluster: {}", head.cluster()),
            "",
            "Checking GCP environment settings",
            "Cluster Ray runtime will not be restarted due to `--no-restart`.",
        ])
        .await?;
    if !is_confirmed {
        let question = "?Updating cluster configuration and running setup commands. Confirm [y/N]: ";
        output.0.write_all(format!("{question}\n").as_bytes()).await?;
        return Ok(1);
    }
    if !head.accepts_logins() {
        return cannot_log_in(head, output).await;
    }
    for line in ["  New status: syncing-files", "  [6/7] Running setup commands", "  New status: up-to-date"]
    {
        output.line(line).await?;
        tokio::time::sleep(STEP / 2).await;
    }
    write_bootstrap(head, file).await;
    output.line("demo: this was simulated, no ray command was run").await?;
    Ok(0)
}

async fn up(head: &HeadMachine, output: &mut Output) -> io::Result<i32> {
    let cluster = head.cluster();
    output.lines(&[&format!("Cluster: {cluster}"), "", "Checking GCP environment settings"]).await?;
    tokio::time::sleep(STEP).await;
    if head.has_ray() {
        if !head.accepts_logins() {
            return cannot_log_in(head, output).await;
        }
        output
            .lines(&[
                "Updating cluster configuration and running full setup.",
                "Cluster Ray runtime will be restarted. Confirm [y/N]: y [automatic, due to --yes]",
            ])
            .await?;
    } else if !head.exists() {
        output
            .lines(&[
                "No head node found. Launching a new cluster. Confirm [y/N]: y [automatic, due to --yes]",
                "",
                "Acquiring an up-to-date head node",
            ])
            .await?;
        tokio::time::sleep(STEP).await;
        let name = head.create();
        output.line(&format!("  Launched a new head node: {name}")).await?;
    }
    output.lines(&["", "<1/1> Setting up head node"]).await?;
    for step in [
        &["  New status: waiting-for-ssh", "  [1/7] Waiting for SSH to become available"][..],
        &["    Success.", "  New status: syncing-files", "  [3/7] Processing file mounts"],
        &["  New status: setting-up", "  [6/7] Running setup commands", "  [7/7] Starting the Ray runtime"],
    ] {
        output.lines(step).await?;
        tokio::time::sleep(STEP).await;
    }
    if !head.start_ray() {
        output.line("The head node was terminated while it was set up.").await?;
        return Ok(1);
    }
    output
        .lines(&["  New status: up-to-date", "", "demo: this was simulated, no ray command was run"])
        .await?;
    Ok(0)
}

/// Fails after a few login attempts. Ray retries for 15 minutes.
async fn cannot_log_in(head: &HeadMachine, output: &mut Output) -> io::Result<i32> {
    output.lines(&["<1/1> Setting up head node", "  [1/7] Waiting for SSH to become available"]).await?;
    for _ in 0..LOGIN_ATTEMPTS {
        output
            .lines(&[
                &format!("ssh: connect to host {ADDRESS} port {}: Connection refused", head.port()),
                "    SSH still not available (SSH command failed.), retrying in 5 seconds.",
            ])
            .await?;
        tokio::time::sleep(STEP / 2).await;
    }
    output.line("  New status: update-failed").await?;
    Ok(1)
}

async fn down(head: &HeadMachine, output: &mut Output) -> io::Result<i32> {
    output.line("Destroying cluster. Confirm [y/N]: y [automatic, due to --yes]").await?;
    tokio::time::sleep(STEP).await;
    let workers: Vec<String> = head.shared().now(|c| {
        let of_autoscaler = |name: &String| !c.by_hand.has(name);
        c.tpu_vms().into_iter().map(|vm| vm.name).filter(of_autoscaler).collect()
    });
    let all = workers.len() + usize::from(head.exists());
    if all > 0 {
        head.delete();
        head.shared().now(|c| workers.iter().for_each(|name| c.delete_tpu_vm(name)));
        output.line(&format!("Requested {all} nodes to shut down. [interval=1s]")).await?;
        tokio::time::sleep(STEP).await;
        output.line("0 nodes remaining after 1 second(s).").await?;
    }
    output.line("No nodes remaining.").await?;
    Ok(0)
}
