//! Searches many log files on the host that has them, with one command per host: only matching lines are sent. On the
//! head the command uses the open connection; on other hosts it logs in separately.

use super::Options;
use super::container::{in_container, shell_join};
use super::log_file::{LOGS, ReadError, script};
use super::visit::batch;
use crate::logs::{Grep, LineSplitter, Pattern};
use crate::model::cloud::TpuHost;
use crate::model::text::printable;
use crate::model::{ClusterSpec, LogMatch, Text};
use crate::ssh::{Remote, RemoteStream, SshError, TunnelSpec, guarded};
use crate::task;
use bytes::{Bytes, BytesMut};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;

/// Time limit for a login and the search of all files on a host.
const HOST_TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum number of bytes of globs per command: hosts limit the length of a command line.
const GLOB_BYTES_MAX: usize = 48 << 10;
/// Number of bytes of a program's error output that are kept.
const STDERR_MAX: u64 = 8 << 10;
/// First byte of a line about a file.
const MARK: u8 = 0x1e;

/// How to reach the hosts of a cluster.
#[derive(Clone)]
pub struct HostAccess<'a> {
    /// The cluster of the hosts.
    pub spec: &'a ClusterSpec,
    /// Login options.
    pub options: &'a Options,
    /// The head's shell.
    pub remote: Remote,
    /// How to log in to other hosts through the head.
    pub login: Option<TunnelSpec>,
}

/// A search of the files of a host.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub pattern: &'a Pattern,
    /// The pattern for grep.
    pub grep: &'a Grep,
    /// Maximum number of lines per file, the last matching ones.
    pub most: usize,
    /// Maximum number of bytes sent per line, including its number and position.
    pub longest: usize,
}

/// A file of a host.
#[derive(Debug, PartialEq)]
pub(super) struct HostFile {
    pub name: Text,
    /// The last matching lines and the number of matching lines before them, or why the file was not searched.
    pub found: Result<(Vec<LogMatch>, usize), String>,
}

impl HostAccess<'_> {
    /// Searches the files that match the globs in the log directory of the head, or of this host: on
    /// the machine, or in the container that the cluster file names.
    ///
    /// # Errors
    ///
    /// The reason why the host was not searched.
    pub(super) async fn search(
        &self,
        host: Option<&TpuHost>,
        globs: &[&str],
        wanted: Wanted<'_>,
    ) -> Result<Vec<HostFile>, String> {
        let searched = tokio::time::timeout(HOST_TIMEOUT, self.search_all(host, globs, wanted)).await;
        searched.unwrap_or_else(|_| Err(format!("no response within {} s", HOST_TIMEOUT.as_secs())))
    }

    async fn search_all(
        &self,
        host: Option<&TpuHost>,
        globs: &[&str],
        wanted: Wanted<'_>,
    ) -> Result<Vec<HostFile>, String> {
        let (mut files, mut rest, mut inside) = (Vec::<HostFile>::new(), globs, false);
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = rest.iter().take_while(|glob| {
                bytes += glob.len() + 4;
                bytes <= GLOB_BYTES_MAX
            });
            let now = &rest[..fits.count().max(1)];
            match self.run(host, now, wanted, inside).await {
                Ok(found) => {
                    rest = &rest[now.len()..];
                    let is_new = |file: &HostFile| files.iter().all(|known| known.name != file.name);
                    let found: Vec<HostFile> = found.into_iter().filter(is_new).collect();
                    files.extend(found);
                }
                Err(ReadError::NoFolder) if !std::mem::replace(&mut inside, true) => {}
                Err(ReadError::NoFolder) => return Err("it has no Ray log directory".to_owned()),
                Err(why) => return Err(why.to_string()),
            }
        }
        Ok(files)
    }

    async fn run(
        &self,
        host: Option<&TpuHost>,
        globs: &[&str],
        wanted: Wanted<'_>,
        inside: bool,
    ) -> Result<Vec<HostFile>, ReadError> {
        let Grep { expression, drawn, any_case, is_ascii } = wanted.grep;
        let (locale, case) = (if *is_ascii { "C" } else { "C.UTF-8" }, if *any_case { "i" } else { "x" });
        let (most, longest) = (wanted.most.to_string(), wanted.longest.to_string());
        // The name appears in the machine's process list; the script is passed as an argument.
        let program = ["sh", "-c", script::SEVERAL, "marin-tui-several-log", LOGS];
        let program = [&program, &[locale, case, &most, &longest, expression, drawn][..], globs].concat();
        let line = if inside {
            in_container(self.spec, host.map(|host| host.internal.raw()), &program)?
                .ok_or(ReadError::NoFolder)?
        } else {
            shell_join(&program.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
        };
        let mut stream = self.begin(host, &line).await?;
        let mut reader = Reader::new(wanted);
        while let Some(bytes) = stream.chunk().await? {
            reader.push(&bytes);
        }
        reader.files().ok_or_else(|| ReadError::Lost("the remote command ended early".to_owned()))
    }

    /// Starts a command line on that host, or on the head.
    pub(super) async fn begin(&self, host: Option<&TpuHost>, line: &str) -> Result<ScriptStream, ReadError> {
        match host {
            None => Ok(ScriptStream::Head(Box::new(self.remote.stream(line)?))),
            Some(host) => {
                ScriptStream::log_in((self.spec, self.options), host, self.login.clone(), line).await
            }
        }
    }
}

/// The output of a script, in chunks. Dropping it ends the script on its host.
pub(super) enum ScriptStream {
    Head(Box<RemoteStream>),
    Login {
        child: Box<Child>,
        stdout: Option<ChildStdout>,
        stderr: JoinHandle<Vec<u8>>,
        /// Open as long as the script may run.
        _stdin: Option<ChildStdin>,
    },
}

impl ScriptStream {
    /// Logs in to a host, and starts a command line there.
    async fn log_in(
        (spec, options): (&ClusterSpec, &Options),
        host: &TpuHost,
        login: Option<TunnelSpec>,
        line: &str,
    ) -> Result<Self, ReadError> {
        let mut command = Command::from(batch(spec, options, host, login, guarded(line)).await?);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().map_err(|e| ReadError::Failed(format!("cannot run ssh: {e}")))?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take();
        let stderr = child.stderr.take();
        let stderr = task::spawn(async move {
            let mut output = Vec::new();
            if let Some(stderr) = stderr {
                // On a read error, the output received so far is reported.
                let _ = stderr.take(STDERR_MAX).read_to_end(&mut output).await;
            }
            output
        });
        Ok(Self::Login { child: Box::new(child), stdout, stderr, _stdin: stdin })
    }

    /// The next bytes; `None` if the script has succeeded. Cancel safe.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, ReadError> {
        match self {
            Self::Head(stream) => stream.chunk().await.map_err(|e| match e {
                SshError::Command { status, stderr, .. } => failure(status, &stderr),
                e => e.into(),
            }),
            Self::Login { child, stdout, stderr, .. } => {
                if let Some(bytes) = more(stdout.as_mut()).await {
                    return Ok(Some(bytes));
                }
                *stdout = None;
                let status = child.wait().await.map_err(|e| ReadError::Lost(e.to_string()))?;
                if status.success() {
                    return Ok(None);
                }
                let stderr = stderr.await.unwrap_or_default();
                Err(failure(status.code().unwrap_or(255), &String::from_utf8_lossy(&stderr)))
            }
        }
    }
}

async fn more(from: Option<&mut (impl AsyncRead + Unpin)>) -> Option<Bytes> {
    let mut chunk = BytesMut::with_capacity(64 << 10);
    let read = from?.read_buf(&mut chunk).await;
    read.is_ok_and(|n| n > 0).then(|| chunk.freeze())
}

/// The error of a command that ended with this exit code, with the end of its error output.
fn failure(status: i32, stderr: &str) -> ReadError {
    let last = stderr.lines().map(str::trim).rfind(|line| !line.is_empty());
    ReadError::of(status).unwrap_or_else(|| {
        ReadError::Failed(match (status, last) {
            (87, _) => "grep on the host does not support -b".to_owned(),
            (88, _) => "stat on the host does not support -c".to_owned(),
            (_, Some(last)) => printable(last).into_owned(),
            (255, None) => "ssh: connection closed".to_owned(),
            (status, None) => format!("exit status {status}"),
        })
    })
}

/// Parses the output of the script.
struct Reader<'a> {
    wanted: Wanted<'a>,
    /// The beginning of an incomplete line.
    held: Vec<u8>,
    files: Vec<HostFile>,
    /// Number of matching lines of the last file, and the number received so far.
    count: usize,
    received: usize,
    is_complete: bool,
}

impl<'a> Reader<'a> {
    fn new(wanted: Wanted<'a>) -> Self {
        Self { wanted, held: Vec::new(), files: Vec::new(), count: 0, received: 0, is_complete: false }
    }

    fn push(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|b| *b == b'\n') {
            self.held.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                let mut line = std::mem::take(&mut self.held);
                line.pop();
                match line.strip_prefix(&[MARK]) {
                    Some(b"end") => self.is_complete = true,
                    Some(head) => self.begin(&String::from_utf8_lossy(head)),
                    None => self.line(&line),
                }
            }
        }
    }

    fn begin(&mut self, head: &str) {
        self.finish_file();
        let mut fields = head.splitn(3, ' ');
        let mut number = || fields.next()?.parse::<i32>().ok();
        let (Some(status), Some(count)) = (number(), number()) else { return };
        let Some(name) = fields.next() else { return };
        let found = match ReadError::of(status) {
            Some(why) => Err(why.to_string()),
            None if status > 0 => Err(format!("grep: exit status {status}")),
            None => Ok((Vec::new(), 0)),
        };
        (self.count, self.received) = (usize::try_from(count).unwrap_or(0), 0);
        self.files.push(HostFile { name: Text::from(name), found });
    }

    fn line(&mut self, line: &[u8]) {
        let Some(HostFile { found: Ok((lines, _)), .. }) = self.files.last_mut() else { return };
        self.received += 1;
        let mut fields = line.splitn(3, |b| *b == b':');
        let mut number = || str::from_utf8(fields.next()?).ok()?.parse().ok();
        let (Some(number), Some(at)) = (number(), number()) else { return };
        let Some(text) = fields.next() else { return };
        let is_cut = line.len() >= self.wanted.longest;
        let Some(text) = LineSplitter::new(self.wanted.longest).push(&[text, b"\n"].concat()).pop() else {
            return;
        };
        // grep also matches color sequences, and in a long line the part that is not sent.
        if is_cut || self.wanted.pattern.is_match(text.text()) {
            lines.push(LogMatch { number, at: Some(at), line: text });
        }
    }

    /// Completes the last file after all its lines were received.
    fn finish_file(&mut self) {
        let before = self.count.saturating_sub(self.received);
        if let Some(HostFile { found: Ok((_, more)), .. }) = self.files.last_mut() {
            *more = before;
        }
    }

    /// All files; `None` if the output was cut off.
    fn files(mut self) -> Option<Vec<HostFile>> {
        self.finish_file();
        self.is_complete.then_some(self.files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Env, Folders, Settings};
    use crate::model::{LogName, Provider};
    use crate::token::TokenSources;
    use std::os::unix::fs::PermissionsExt;

    /// The result of the script in this machine's shell, for a directory.
    fn searched(folder: &std::path::Path, pattern: &str, most: usize, globs: &[&str]) -> Vec<HostFile> {
        let pattern = Pattern::parse(pattern).unwrap();
        let words = Grep::of(&pattern).unwrap().unwrap();
        let mut sh = std::process::Command::new("sh");
        sh.args(["-c", script::SEVERAL, "several"]).arg(folder);
        sh.args([if words.is_ascii { "C" } else { "C.UTF-8" }, if words.any_case { "i" } else { "x" }]);
        sh.args([most.to_string(), "1000".to_owned()]).args([&words.expression, &words.drawn]).args(globs);
        let output = sh.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let mut reader = Reader::new(Wanted { pattern: &pattern, grep: &words, most, longest: 1000 });
        // A chunk may end anywhere.
        output.stdout.chunks(7).for_each(|chunk| reader.push(chunk));
        reader.files().unwrap()
    }

    fn texts(file: &HostFile) -> (Vec<String>, usize) {
        let (lines, more) = file.found.as_ref().unwrap();
        (lines.iter().map(|found| found.line.text().to_owned()).collect(), *more)
    }

    #[test]
    fn the_files_of_a_folder_are_searched_in_one_command() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
        write("worker-a-01-1.err", b"boom 1\nfine\nboom 2\nboom 3");
        write("worker-b-01-2.out", b"\x1b[31mbo\x1b[0mom 4\n\x1e0 9 worker-x\n");
        write("worker-c-01-3.out", b"");
        write("it's $(id) *.log", b"$(id) 'boom'\n");
        write("raylet.out", b"boom\n");
        let wide: Vec<u8> = "boom, wide\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        write("worker-d-01-4.err", &wide);
        std::fs::create_dir(folder.path().join("worker-dir")).unwrap();
        let found =
            searched(folder.path(), "boom", 2, &["worker-*", "it's $(id) *.log", "nothing-*", "no'ne"]);
        let names: Vec<&str> = found.iter().map(|file| file.name.raw()).collect();
        assert_eq!(
            names,
            [
                "worker-a-01-1.err",
                "worker-b-01-2.out",
                "worker-c-01-3.out",
                "worker-d-01-4.err",
                "it's $(id) *.log"
            ]
        );
        assert_eq!(texts(&found[0]), (vec!["boom 2".into(), "boom 3".into()], 1));
        let (lines, _) = found[0].found.as_ref().unwrap();
        assert_eq!((lines[0].number, lines[0].at), (3, Some(12)));
        assert_eq!(texts(&found[1]).0, ["boom 4"]);
        assert_eq!(texts(&found[2]), (vec![], 0));
        assert!(found[3].found.as_ref().unwrap_err().contains("UTF-16"));
        assert_eq!(texts(&found[4]).0, ["$(id) 'boom'"]);
        let quoted = searched(folder.path(), r"\$\(id\) 'b", 5, &["*"]);
        assert_eq!(
            quoted.iter().filter(|file| file.found.as_ref().is_ok_and(|f| !f.0.is_empty())).count(),
            1
        );
    }

    #[test]
    fn compressed_files_are_not_searched() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str| std::fs::write(folder.path().join(name), b"boom\n").unwrap();
        let names =
            ["a.out", "a.out.1", "a.out-20261126", "a.out.2.gz", "a.out.3.xz", "a.out.4.zst", "a.out.5.bz2"];
        for name in names {
            write(name);
        }
        let found = searched(folder.path(), "boom", 2, &["a.out*"]);
        assert_eq!(found.len(), names.len());
        for file in found {
            let is_compressed = LogName::parse(file.name.raw()).reader.is_some();
            match &file.found {
                Err(why) => assert!(is_compressed && why == "it is compressed", "{file:?}"),
                Ok((lines, _)) => assert!(!is_compressed && lines.len() == 1, "{file:?}"),
            }
        }
    }

    /// A program in place of ssh that runs the command line in a session of its own on this machine, as sshd does.
    const SSH: &str = "#!/bin/sh\ncase \" $* \" in *' -G '*) echo hostname 10.0.0.2; exit;; esac\n\
                       for line; do :; done\nexec setsid sh -c \"$line\"\n";

    #[tokio::test]
    async fn a_script_that_prints_nothing_ends_when_it_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let (ssh, pipe) = (folder.path().join("ssh"), folder.path().join("pipe"));
        std::fs::write(&ssh, SSH).unwrap();
        std::fs::set_permissions(&ssh, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let env = Env::new(&[("HOME", folder.path().to_str().unwrap())], folder.path());
        let mut options = Options::new(&Settings::default(), &Folders::new(&env), TokenSources::default());
        options.ssh = ssh;
        let spec = ClusterSpec::sample("lab", Provider::Local);
        // Like grep in a large file without matches; the pipe has a writer until the last process has ended.
        let line = format!("exec 9>'{}'; echo begun; sleep 600; echo ended", pipe.display());
        let ended = task::spawn_blocking(move || std::fs::read(pipe));
        let host = TpuHost::at("10.0.0.2");
        let mut stream = ScriptStream::log_in((&spec, &options), &host, None, &line).await.unwrap();
        assert_eq!(stream.chunk().await.unwrap().unwrap(), "begun\n");
        drop(stream);
        let ended = tokio::time::timeout(Duration::from_secs(30), ended).await;
        assert!(ended.expect("the script ends").unwrap().is_ok());
    }

    #[test]
    fn truncated_output_is_rejected() {
        let pattern = Pattern::parse("x").unwrap();
        let words = Grep::of(&pattern).unwrap().unwrap();
        let mut reader = Reader::new(Wanted { pattern: &pattern, grep: &words, most: 5, longest: 1000 });
        reader.push(b"\x1e0 1 a.log\n1:0:x\n");
        assert_eq!(reader.files(), None);
        assert!(
            failure(255, "\nssh: connect to host a port 22: No route\n\n").to_string().ends_with("No route")
        );
        assert!(matches!(failure(83, ""), ReadError::NoFolder));
    }
}
