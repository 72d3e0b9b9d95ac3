//! A real sshd on 127.0.0.1 with its own directory, for the user that runs the tests; root is not needed.

use crate::ports::free_ports;
use crate::until::until;
use marin_tui::model::{ClusterName, HostName, SshAuth};
use marin_tui::ssh::{KeepAlive, TunnelSpec};
use std::fs;
use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// Time limit for a wait.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// The directory of one test: keys, configurations, `known_hosts`, control sockets (in `r`).
pub struct SshdDir(PathBuf);

impl SshdDir {
    /// Uses an existing directory.
    pub fn at(dir: &Path) -> Self {
        Self(dir.to_owned())
    }

    /// A path in the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Generates a key pair with this name, replacing an existing one.
    pub fn keygen(&self, name: &str, kind: &str, passphrase: &str) {
        for old in [self.path(name), self.path(&format!("{name}.pub"))] {
            fs::remove_file(old)
                .or_else(|e| if e.kind() == ErrorKind::NotFound { Ok(()) } else { Err(e) })
                .unwrap();
        }
        let path = self.path(name);
        run(Command::new("ssh-keygen").args(["-q", "-t", kind, "-N", passphrase, "-f"]).arg(path));
    }

    /// Fingerprint of a public key file, `SHA256:...`.
    pub fn fingerprint(&self, public: &str) -> String {
        let output = run(Command::new("ssh-keygen").args(["-l", "-f"]).arg(self.path(public)));
        let text = String::from_utf8(output.stdout).unwrap();
        text.split_whitespace().find(|w| w.starts_with("SHA256:")).unwrap().to_owned()
    }

    /// A spec for this port that does not use any files of the user who runs the tests.
    pub fn spec(&self, port: u16) -> TunnelSpec {
        TunnelSpec {
            name: ClusterName::new("test"),
            host: HostName::parse("127.0.0.1").unwrap(),
            auth: SshAuth {
                user: Some(user()),
                private_key: Some(self.path("key")),
                proxy_command: None,
                port: Some(port),
            },
            forwards: Vec::new(),
            known_hosts: self.path("known hosts 100%/known_hosts"),
            run_dir: self.path("r"),
            ssh: "ssh".into(),
            ssh_config: Some(self.path("ssh_config")),
            connect_timeout: Duration::from_secs(10),
            keep_alive: KeepAlive::default(),
        }
    }
}

/// A running sshd. Dropping it kills it and its sessions.
pub struct Sshd {
    dir: tempfile::TempDir,
    /// Its port on 127.0.0.1.
    pub port: u16,
    child: Child,
}

impl Sshd {
    /// Starts sshd with these additional configuration lines.
    pub fn start(extra: &str) -> Self {
        let dir = tempfile::Builder::new().prefix("mt").tempdir_in("/tmp").unwrap();
        let sshd_dir = SshdDir::at(dir.path());
        sshd_dir.keygen("key", "ed25519", "");
        sshd_dir.keygen("host_key", "ed25519", "");
        fs::copy(sshd_dir.path("key.pub"), sshd_dir.path("authorized_keys")).unwrap();
        fs::write(sshd_dir.path("ssh_config"), "").unwrap();
        let port = free_port();
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {0}/host_key\nAuthorizedKeysFile {0}/authorized_keys\n\
             PidFile none\nUsePAM no\nStrictModes no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n{extra}\n",
            dir.path().display()
        );
        fs::write(sshd_dir.path("sshd_config"), config).unwrap();
        let child = serve(&sshd_dir.path("sshd_config"), port);
        Self { dir, port, child }
    }

    /// Its directory.
    pub fn dir(&self) -> SshdDir {
        SshdDir::at(self.dir.path())
    }

    /// A spec that logs in here.
    pub fn spec(&self) -> TunnelSpec {
        self.dir().spec(self.port)
    }

    /// Kills it and every session.
    pub fn stop(&mut self) {
        if self.child.try_wait().unwrap().is_none() {
            self.signal("KILL");
            self.child.wait().unwrap();
        }
    }

    /// Sends a signal to it and every session.
    pub fn signal(&self, name: &str) {
        // Parents first, so that they start no new processes in the meantime.
        let mut family = vec![self.child.id()];
        let table = processes();
        let mut next = 0;
        while next < family.len() {
            let parent = family[next];
            family.extend(table.iter().filter(|p| p.parent == parent).map(|p| p.id));
            next += 1;
        }
        for id in family {
            // Some may have ended with their parent.
            Command::new("kill").args(["-s", name, &id.to_string()]).stderr(Stdio::null()).status().unwrap();
        }
    }

    /// Restarts it on the same port, with the host key that is now in its directory.
    pub fn restart(&mut self) {
        self.stop();
        self.child = serve(&self.dir().path("sshd_config"), self.port);
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        self.stop();
    }
}

fn serve(config: &Path, port: u16) -> Child {
    if user() == "root" {
        fs::create_dir_all("/run/sshd").unwrap();
        fs::set_permissions("/run/sshd", fs::Permissions::from_mode(0o755)).unwrap();
    }
    let log = config.with_file_name("sshd.log");
    let mut sshd = Command::new("/usr/sbin/sshd");
    sshd.args(["-D", "-E"]).arg(&log).arg("-f").arg(config).stdin(Stdio::null());
    let mut child = sshd.spawn().unwrap_or_else(|e| panic!("/usr/sbin/sshd: {e}; install openssh-server"));
    until("sshd answers", || {
        let ended = child.try_wait().unwrap();
        assert!(ended.is_none(), "sshd: {}", fs::read_to_string(&log).unwrap_or_default());
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
        stream.read_exact(&mut [0; 4]).is_ok()
    });
    child
}

/// A port of 127.0.0.1 that is currently free.
pub fn free_port() -> u16 {
    let [port] = free_ports();
    port
}

/// The user that runs the tests.
pub fn user() -> String {
    String::from_utf8(run(Command::new("id").arg("-un")).stdout).unwrap().trim().to_owned()
}

/// One row of `ps`.
#[derive(Debug)]
pub struct Process {
    id: u32,
    parent: u32,
    pub args: String,
}

fn processes() -> Vec<Process> {
    let table = run(Command::new("ps").args(["-axww", "-o", "pid=,ppid=,stat=,args="]));
    let text = String::from_utf8_lossy(&table.stdout).into_owned();
    let row = |line: &str| {
        let mut words = line.split_whitespace();
        let (id, parent) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let alive = !words.next()?.starts_with('Z');
        alive.then(|| Process { id, parent, args: words.collect::<Vec<_>>().join(" ") })
    };
    text.lines().filter_map(row).collect()
}

/// Running processes that have this path in their arguments.
pub fn running(path: &Path) -> Vec<Process> {
    let path = path.to_str().unwrap();
    processes().into_iter().filter(|p| p.args.contains(path)).collect()
}

fn run(command: &mut Command) -> Output {
    let output =
        command.output().unwrap_or_else(|e| panic!("{command:?}: {e}; install openssh-client, procps"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}
