//! What is done on a worker's host over SSH, through the head where only it leads there: Ray is started and stopped
//! by the commands of the cluster's file. A secret goes over standard input, never as an argument.

use super::startup::commands;
use super::trouble;
use crate::config::NodeLaunch;
use crate::model::cloud::TpuHost;
use crate::model::text::printable;
use crate::model::{ClusterSpec, Problem, Secret};
use crate::ssh::quote;
use crate::supervisor::{self, Options};
use std::process::{Output, Stdio};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// Setup commands may install a lot.
const STARTING: Duration = Duration::from_secs(900);
/// `ray stop` gives its processes some seconds.
const STOPPING: Duration = Duration::from_secs(60);
/// Where the startup script lies on a host of Google's, and where it says what it does.
const SCRIPT: &str = "/var/lib/marin-tui-worker/startup.sh";

/// Runs a command line on a host with this as its standard input; fails unless it ends with 0.
async fn send(
    spec: &ClusterSpec,
    options: &Options,
    host: &TpuHost,
    line: &str,
    input: &[u8],
    limit: Duration,
) -> Result<(), Problem> {
    let name = &host.internal;
    let ssh = supervisor::visit(spec, options, Some(host), None, Some(line.to_owned())).await?;
    let mut command = Command::from(ssh);
    // Nobody sits there to be asked.
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    let work = async {
        let mut child = command.spawn()?;
        if let Some(mut pipe) = child.stdin.take() {
            // One that does not read has its own reasons, which its code tells.
            let _ = pipe.write_all(input).await;
        }
        child.wait_with_output().await
    };
    let output: Output = match tokio::time::timeout(limit, work).await {
        Ok(Ok(output)) => output,
        Ok(Err(e)) => return Err(trouble(format!("ssh cannot be run: {e}"), "is OpenSSH installed here?")),
        Err(_) => {
            let what = format!("nothing came of {name} within {} s", limit.as_secs());
            return Err(trouble(what, "log in there (`marin-tui ssh`) and look what hangs"));
        }
    };
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    // What an interactive bash says of itself is no reason.
    let is_noise = |l: &&str| {
        l.is_empty()
            || matches!(*l, "logout" | "exit" | "bash: no job control in this shell")
            || l.starts_with("bash: cannot set terminal process group")
    };
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|l| !is_noise(l)).collect();
    let said = lines[lines.len().saturating_sub(3)..].join("; ");
    let said = if said.is_empty() { "it did not say why" } else { &said };
    let what = format!("{name}: {}", printable(said));
    Err(trouble(what, format!("`marin-tui -c {} ssh {name}` logs in there to look", spec.name)))
}

/// Starts Ray on a host as a worker of the head at that address: the token first, for its user alone, then the setup
/// and start commands of the cluster's file in a login shell, as Ray runs them.
pub async fn start_ray(
    spec: &ClusterSpec,
    options: &Options,
    host: &TpuHost,
    node: &NodeLaunch,
    head: &str,
    token: Option<&Secret>,
) -> Result<(), Problem> {
    if let Some(token) = token {
        let line = "umask 077 && mkdir -p ~/.ray && cat >~/.ray/auth_token.new && mv -f ~/.ray/auth_token.new ~/.ray/auth_token";
        send(spec, options, host, line, token.expose().as_bytes(), STOPPING).await?;
    }
    let script = format!("export RAY_HEAD_IP={}\n{}", quote(head), commands(node));
    send(spec, options, host, &in_login_shell(&script), b"", STARTING).await
}

/// The line that [`start_ray`] runs, for people.
pub fn start_line(node: &NodeLaunch) -> String {
    node.setup.iter().chain(&node.start).cloned().collect::<Vec<_>>().join("; ")
}

/// Ends Ray on a host; that it is gone is for Ray's head to tell.
pub async fn stop_ray(spec: &ClusterSpec, options: &Options, host: &TpuHost) -> Result<(), Problem> {
    let line = in_login_shell("ray stop --force || pkill -KILL -u \"$(id -u)\" -x raylet");
    send(spec, options, host, &line, b"", STOPPING).await
}

/// Puts the startup script on a host of Google's and starts it there, in the place of one that runs. It goes on by
/// itself after the login has ended.
pub async fn install_script(
    spec: &ClusterSpec,
    options: &Options,
    host: &TpuHost,
    script: &str,
) -> Result<(), Problem> {
    let install = format!(
        "umask 077 && mkdir -p {folder} && cat >{SCRIPT}.new && mv -f {SCRIPT}.new {SCRIPT} && \
         {{ setsid bash {SCRIPT} >>{folder}/log 2>&1 </dev/null & }}",
        folder = SCRIPT.trim_end_matches("/startup.sh")
    );
    send(spec, options, host, &format!("sudo -n sh -c {}", quote(&install)), script.as_bytes(), STOPPING)
        .await
}

/// As Ray runs commands (`_with_interactive` in `ray/autoscaler/_private/command_runner.py`): many a host finds `ray`
/// only by its `.bashrc`. Its output goes to a file: what it starts for good would hold ssh's end open. The last lines
/// are told on an error.
fn in_login_shell(script: &str) -> String {
    let script = format!(
        "[ ! -f ~/.bashrc ] || source ~/.bashrc\nexport OMP_NUM_THREADS=1 PYTHONWARNINGS=ignore\n{script}"
    );
    format!(
        "out=$(mktemp) && {{ bash --login -c -i {} >\"$out\" 2>&1 </dev/null; code=$?; \
         [ $code = 0 ] || tail -n 12 \"$out\" >&2; rm -f \"$out\"; exit $code; }}",
        quote(&script)
    )
}
