//! Actions on a worker's host over SSH, through the head if the host can only be reached in that way: starting and
//! stopping Ray with the commands of the cluster file. A secret is passed on standard input, never as an argument.

use super::call::Call;
use super::executor::Executor;
use super::startup::{commands, each};
use super::{failure, then_resume};
use crate::config::{Env, Launch, NodeLaunch};
use crate::model::cloud::TpuHost;
use crate::model::text::printable;
use crate::model::{ClusterSpec, Problem, Secret, Verb};
use crate::ssh::quote;
use crate::supervisor::{self, Options, in_container};
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

/// Time limit for starting: setup commands may install a lot.
const START_TIMEOUT: Duration = Duration::from_secs(900);
/// Time limit for stopping: `ray stop` gives its processes several seconds.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum number of bytes kept of a command's output.
const OUTPUT_MAX: usize = 4 << 20;
/// Path of the startup script on a host at Google, where it also reports its progress.
const SCRIPT: &str = "/var/lib/marin-tui-worker/startup.sh";
/// What the script of [`stop_line`] prints once it has ended the startup script.
const STOPPED: &str = "stopped";
/// Prints the addresses of a host, with Debian's `hostname`, iproute2 or net-tools.
const ADDRESSES: &str = "hostname -I 2>/dev/null || ip addr 2>/dev/null || ifconfig";

/// The input of a command on a host.
enum Input<'a> {
    /// Input from memory.
    Text(&'a [u8]),
    /// A file, or the output of a program.
    From(Stdio),
}

/// A host of a cluster, for logins.
pub struct Host<'a> {
    /// The cluster of the host.
    pub spec: &'a ClusterSpec,
    /// Login options.
    pub options: &'a Options,
    /// Executes the commands and copies.
    pub executor: &'a Executor,
    /// The host to log in to.
    pub to: TpuHost,
}

impl Host<'_> {
    fn name(&self) -> &str {
        self.to.internal.raw()
    }

    /// Runs a command line that changes something, with this standard input; fails unless it exits with 0. `note` is
    /// the comment in a dry run.
    async fn run(&self, line: &str, input: &[u8], limit: Duration, note: &str) -> Result<(), Problem> {
        if self.executor.records(|| Call::ssh(self.name(), line).noted(note)) {
            return Ok(());
        }
        self.send(line, Input::Text(input), limit).await.map(drop)
    }

    /// Runs a shell script, as root if `sudo` needs no password, and returns its output, at most 4 MiB. The script may
    /// or may not make changes.
    pub async fn script(
        &self,
        script: &str,
        arguments: &[&str],
        limit: Duration,
    ) -> Result<Vec<u8>, Problem> {
        let words: Vec<String> = arguments.iter().map(|word| quote(word)).collect();
        let run = "if sudo -n true </dev/null >/dev/null 2>&1; then exec sudo -n sh -s -- \"$@\"; fi; exec sh -s -- \"$@\"";
        let line = format!("exec sh -c {} sh {}", quote(run), words.join(" "));
        self.send(&line, Input::Text(script.as_bytes()), limit).await
    }

    /// Runs a shell script where Ray runs: in the container that the cluster file names, or else on the host itself
    /// like [`Host::script`].
    pub async fn script_where_ray_runs(
        &self,
        script: &str,
        arguments: &[&str],
        limit: Duration,
    ) -> Result<Vec<u8>, Problem> {
        match in_container(self.spec, Some(self.name()), &[&["sh", "-s", "--"], arguments].concat())? {
            Some(line) => self.send(&line, Input::Text(script.as_bytes()), limit).await,
            None => self.script(script, arguments, limit).await,
        }
    }

    /// Starts a command line with piped standard input and output. It is killed when the returned process is dropped.
    pub(super) async fn begin(&self, line: &str) -> Result<Child, Problem> {
        let login = supervisor::batch(self.spec, self.options, &self.to, None, line.to_owned());
        let mut command = Command::from(login.await?);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        command
            .spawn()
            .map_err(|e| failure(format!("cannot run ssh: {e}"), "install OpenSSH on this machine"))
    }

    async fn send(&self, line: &str, input: Input<'_>, limit: Duration) -> Result<Vec<u8>, Problem> {
        let name = &self.to.internal;
        let login = supervisor::batch(self.spec, self.options, &self.to, None, line.to_owned());
        let mut command = Command::from(login.await?);
        let (text, stdin) = match input {
            Input::Text(text) => (text, Stdio::piped()),
            Input::From(stdin) => (&b""[..], stdin),
        };
        // No operator can answer a prompt on this connection.
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let work = async {
            let mut child = command.spawn()?;
            let pipe = child.stdin.take();
            let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
            let write = async {
                if let Some(mut pipe) = pipe {
                    // A command that does not read its input reports the cause with its exit code.
                    let _ = pipe.write_all(text).await;
                }
            };
            let ((), stdout, stderr) = tokio::join!(write, read_limited(stdout), read_limited(stderr));
            Ok::<_, std::io::Error>((child.wait().await?, stdout, stderr))
        };
        let (status, stdout, stderr): (ExitStatus, Vec<u8>, Vec<u8>) =
            match tokio::time::timeout(limit, work).await {
                Ok(Ok(output)) => output,
                Ok(Err(e)) => {
                    return Err(failure(format!("cannot run ssh: {e}"), "install OpenSSH on this machine"));
                }
                Err(_) => {
                    let what = format!("{name} timed out after {} s", limit.as_secs());
                    return Err(failure(what, Verb::Ssh.on(name.raw(), "log in and check what hangs")));
                }
            };
        if status.success() {
            return Ok(stdout);
        }
        let what = format!("{name}: {}", printable(&reason(&stderr)));
        Err(failure(what, Verb::Ssh.on(name.raw(), "log in to check")))
    }

    /// Starts Ray as a worker of the head at this address, in Ray's own order (`do_update` in
    /// `ray/autoscaler/_private/updater.py`): the files of the cluster file, then its initialization, setup and start
    /// commands in a login shell. The token in force is copied after the files, readable only by its user.
    pub async fn start_ray(
        &self,
        (launch, node): (&Launch, &NodeLaunch),
        head: &str,
        token: Option<&Secret>,
    ) -> Result<(), Problem> {
        for (to, from) in &launch.file_mounts {
            self.copy(&Env::current().expand(Path::new(from)), to).await?;
        }
        if let Some(token) = token {
            let line = "umask 077 && mkdir -p ~/.ray && cat >~/.ray/auth_token.new && mv -f ~/.ray/auth_token.new ~/.ray/auth_token";
            let note = "the cluster's token is passed on standard input";
            self.run(line, token.expose().as_bytes(), STOP_TIMEOUT, note).await?;
        }
        let script = format!("{}export RAY_HEAD_IP={}\n{}", each(&node.init), quote(head), commands(node));
        self.run(&in_login_shell(&script), b"", START_TIMEOUT, "starts Ray").await
    }

    /// Copies a file, or the contents of a directory, like `rsync -a`: modes are kept, and other files are left alone.
    async fn copy(&self, from: &Path, to: &str) -> Result<(), Problem> {
        let cannot_copy = |e: &dyn std::fmt::Display| {
            let what = format!("file_mounts: cannot read {} on this machine: {e}", from.display());
            failure(what, then_resume("create it, or remove it from the cluster file"))
        };
        let found = std::fs::metadata(from).map_err(|e| cannot_copy(&e))?;
        if self.executor.records(|| Call::copy(self.name(), from.display().to_string(), to)) {
            return Ok(());
        }
        let there = remote_path(to);
        if !found.is_dir() {
            let line = format!(
                "umask 077 && mkdir -p \"$(dirname {there})\" && cat >{there}.part && chmod {:o} {there}.part && \
                 mv -f {there}.part {there}",
                found.permissions().mode() & 0o777
            );
            let file = std::fs::File::open(from).map_err(|e| cannot_copy(&e))?;
            return self.send(&line, Input::From(file.into()), START_TIMEOUT).await.map(drop);
        }
        let mut tar = Command::from(supervisor::pack(from));
        tar.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut tar = tar.spawn().map_err(|e| cannot_copy(&e))?;
        let pipe = tar.stdout.take().map(TryInto::<Stdio>::try_into);
        let pipe = pipe.ok_or_else(|| cannot_copy(&"tar wrote no output"))?.map_err(|e| cannot_copy(&e))?;
        let line = format!("mkdir -p {there} && tar -xpf - -C {there}");
        // Read while it runs: it would block on a full pipe.
        let (sent, ended) =
            tokio::join!(self.send(&line, Input::From(pipe), START_TIMEOUT), tar.wait_with_output());
        sent?;
        let ended = ended.map_err(|e| cannot_copy(&e))?;
        let said = String::from_utf8_lossy(&ended.stderr);
        let why = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("tar failed");
        if ended.status.success() { Ok(()) } else { Err(cannot_copy(&why)) }
    }

    /// Stops Ray on the host. Whether the node is gone is checked at the head.
    pub async fn stop_ray(&self) -> Result<(), Problem> {
        let line = in_login_shell("ray stop --force || pkill -KILL -u \"$(id -u)\" -x raylet");
        self.run(&line, b"", STOP_TIMEOUT, "stops Ray").await
    }

    /// The IP addresses of the host as it reports them, without loopback addresses; an error if there are none.
    pub async fn addresses(&self) -> Result<Vec<IpAddr>, Problem> {
        let output = self.send(ADDRESSES, Input::Text(b""), STOP_TIMEOUT).await?;
        let found = addresses(&String::from_utf8_lossy(&output));
        if found.is_empty() {
            let what = format!("cannot determine the IP addresses of {}", self.to.internal);
            return Err(failure(what, Verb::Ssh.on(self.name(), "log in to check `ip addr`")));
        }
        Ok(found)
    }

    /// Stops the startup script on a TPU host; returns whether it ran there, `false` in a dry run. Ray keeps running,
    /// and is not started again until the next boot.
    pub async fn stop_script(&self) -> Result<bool, Problem> {
        let line = format!("sudo -n sh -c {}", quote(&stop_line(script_folder())));
        let note = "stops the startup script, which would start Ray again";
        if self.executor.records(|| Call::ssh(self.name(), &line).noted(note)) {
            return Ok(false);
        }
        let output = self.send(&line, Input::Text(b""), STOP_TIMEOUT).await?;
        Ok(String::from_utf8_lossy(&output).lines().any(|said| said.trim() == STOPPED))
    }

    /// Copies the startup script to a TPU host and starts it there, replacing a running one. The script keeps running
    /// after the login has ended.
    pub async fn install_script(&self, script: &str) -> Result<(), Problem> {
        let install = format!(
            "umask 077 && mkdir -p {folder} && cat >{SCRIPT}.new && mv -f {SCRIPT}.new {SCRIPT} && \
             {{ setsid bash {SCRIPT} >>{folder}/log 2>&1 </dev/null & }}",
            folder = script_folder()
        );
        let line = format!("sudo -n sh -c {}", quote(&install));
        let note = "the startup script is passed on standard input";
        if self.executor.records(|| Call::ssh_with(self.name(), &line, script).noted(note)) {
            return Ok(());
        }
        self.send(&line, Input::Text(script.as_bytes()), STOP_TIMEOUT).await.map(drop)
    }
}

/// The directory of the startup script on a host at Google.
fn script_folder() -> &'static str {
    SCRIPT.trim_end_matches("/startup.sh")
}

/// The shell script that ends the startup script in this directory, and prints [`STOPPED`] if it ran. The startup
/// script holds the lock there while it runs: without that, the process id in the file may be another process by now.
fn stop_line(folder: &str) -> String {
    format!(
        "cd {folder} 2>/dev/null || exit 0; flock -n lock true && exit 0; pid=$(cat pid) || exit 1; \
         kill \"$pid\" 2>/dev/null || exit 0; \
         for i in 1 2 3 4 5 6 7 8 9 10; do kill -0 \"$pid\" 2>/dev/null || {{ echo {STOPPED}; exit 0; }}; sleep 1; done; \
         echo \"the startup script (process $pid) does not exit\" >&2; exit 1"
    )
}

/// The IP addresses in the output of [`ADDRESSES`], without loopback addresses. `hostname` prints nothing else; the
/// other programs also print those of networks and of peers, which do not follow `inet` or `inet6`.
fn addresses(output: &str) -> Vec<IpAddr> {
    let words: Vec<&str> = output.split_whitespace().collect();
    let of_family = |pair: &&[&str]| matches!(pair[0], "inet" | "inet6");
    let named: Vec<&str> = words.windows(2).filter(of_family).map(|pair| pair[1]).collect();
    let address = |word: &&str| word.split('/').next()?.parse::<IpAddr>().ok();
    let all = if named.is_empty() { words } else { named };
    all.iter().filter_map(address).filter(|a| !a.is_loopback()).collect()
}

/// Reads to the end and keeps the first [`OUTPUT_MAX`] bytes.
async fn read_limited(from: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let mut kept = Vec::new();
    let Some(mut from) = from else { return kept };
    let mut chunk = vec![0; 16 << 10];
    while let Ok(n @ 1..) = from.read(&mut chunk).await {
        let room = n.min(OUTPUT_MAX - kept.len());
        kept.extend_from_slice(&chunk[..room]);
    }
    kept
}

/// The last lines of a command's error output.
fn reason(stderr: &[u8]) -> String {
    let output = String::from_utf8_lossy(stderr);
    // Warnings of an interactive bash are not the reason.
    let is_noise = |l: &&str| {
        l.is_empty()
            || matches!(*l, "logout" | "exit" | "bash: no job control in this shell")
            || l.starts_with("bash: cannot set terminal process group")
    };
    let lines: Vec<&str> = output.lines().map(str::trim).filter(|l| !is_noise(l)).collect();
    let last = lines[lines.len().saturating_sub(3)..].join("; ");
    if last.is_empty() { "no error message".to_owned() } else { last }
}

/// A path for the host's shell, in which a leading `~` keeps its meaning.
fn remote_path(path: &str) -> String {
    let path = if path.len() > 1 { path.trim_end_matches('/') } else { path };
    match path.strip_prefix("~/") {
        Some(rest) => format!("~/{}", quote(rest)),
        None if path == "~" => path.to_owned(),
        None => quote(path),
    }
}

/// Like Ray's own commands (`_with_interactive` in `ray/autoscaler/_private/command_runner.py`): many hosts find `ray`
/// only through their `.bashrc`. The output goes to a file, because a daemon started by it would keep ssh open. The
/// last lines are printed on an error.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remote_path_is_one_word_and_its_tilde_is_expanded() {
        assert_eq!((remote_path("~").as_str(), remote_path("~/")), ("~", "~".to_owned()));
        let word = remote_path("~/a b'; rm -rf $HOME/");
        let line = format!("HOME=/h; printf '%s|' {word}");
        let output = std::process::Command::new("sh").args(["-c", &line]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "/h/a b'; rm -rf $HOME|");
        assert_eq!(remote_path("/"), quote("/"));
    }

    #[test]
    fn addresses_are_read_from_the_output_of_each_program() {
        let hostname = "10.0.0.7 172.17.0.1 fd00::7 \n";
        let iproute2 = "1: lo: <LOOPBACK,UP> mtu 65536\n    inet 127.0.0.1/8 scope host lo\n    inet6 ::1/128 scope host\n\
                        2: eth0: <UP> mtu 1460\n    inet 10.0.0.7/24 metric 100 brd 10.0.0.255 scope global\n    \
                        inet6 fd00::7/64\n3: tun0: <UP> mtu 1500\n    inet 10.8.0.2 peer 10.8.0.1/32 scope global\n";
        let net_tools = "eth0: flags=4163<UP>  mtu 1460\n        \
                         inet 10.0.0.7  netmask 255.255.255.0  broadcast 10.0.0.255\n";
        let read = |output: &str| addresses(output).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(read(hostname), ["10.0.0.7", "172.17.0.1", "fd00::7"]);
        assert_eq!(read(iproute2), ["10.0.0.7", "fd00::7", "10.8.0.2"]);
        assert_eq!(read(net_tools), ["10.0.0.7"]);
        assert!(read("hostname: not found\n").is_empty());
    }

    // On other systems, flock(1) may be missing; the hosts of TPUs run Linux.
    #[cfg(target_os = "linux")]
    #[test]
    fn only_a_running_startup_script_is_ended() {
        use std::os::unix::process::ExitStatusExt as _;
        use std::process::Command;
        let dir = tempfile::tempdir().unwrap();
        let stop = |folder: &Path| {
            let output = Command::new("sh").args(["-c", &stop_line(folder.to_str().unwrap())]).output();
            let output = output.unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        assert_eq!(stop(&dir.path().join("missing")), "");
        // The id of a script that has ended belongs to another process.
        let id = dir.path().join("pid");
        let mut other = Command::new("sleep").arg("600").spawn().unwrap();
        std::fs::write(&id, other.id().to_string()).unwrap();
        assert_eq!(stop(dir.path()), "");
        assert!(other.try_wait().unwrap().is_none(), "another process was ended");
        other.kill().unwrap();
        other.wait().unwrap();
        // Like the startup script.
        let script = "exec 9>lock; flock -n 9; echo $$ >new; mv new pid; while :; do sleep 0.1; done";
        let mut running = Command::new("bash").args(["-c", script]).current_dir(dir.path()).spawn().unwrap();
        let own = running.id().to_string();
        while std::fs::read_to_string(&id).unwrap().trim() != own {
            std::thread::sleep(Duration::from_millis(10));
        }
        // Its parent takes note of its end.
        let ended = std::thread::spawn(move || running.wait().unwrap());
        assert_eq!(stop(dir.path()).trim(), STOPPED);
        // kill(1): SIGTERM.
        assert_eq!(ended.join().unwrap().signal(), Some(15));
    }
}
