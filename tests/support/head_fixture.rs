//! A simulated head, and a home directory from which commands connect to it by address.

use crate::program::{Ran, program};
use crate::transcript::Transcript;
use marin_tui::demo::{Head, Life, Scenario};
use marin_tui::model::{JobStatus, Secret};
use serde_json::Value;
use std::fs;
use std::process::Command;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// The token of the head, which must not appear in any output.
pub const TOKEN: &str = "tok-5e0c91d7-never-shown";

/// A simulated head that requires a token, and a home directory.
pub struct HeadFixture {
    pub runtime: Runtime,
    pub head: Head,
    pub home: TempDir,
}

impl HeadFixture {
    /// Starts a head with this scenario and a token.
    pub fn new(scenario: Scenario) -> Self {
        let runtime = Runtime::new().unwrap();
        let scenario = Scenario { token: Some(Secret::new(TOKEN)), ..scenario };
        let head = runtime.block_on(Head::start(scenario)).unwrap();
        // The path of a control socket is limited to about 100 bytes.
        let home = tempfile::Builder::new().prefix("mt").tempdir_in("/tmp").unwrap();
        Self { runtime, head, home }
    }

    /// Starts a head with this Ray version and only the simulated activity described in the YAML.
    pub fn with_life(life: &str, ray: &str) -> Self {
        let life: Life = serde_yaml::from_str(life).unwrap();
        let (ray_version, life) = (ray.into(), Some(life));
        Self::new(Scenario { jobs: 0, dead: 0, log_rate: 1, ray_version, life, ..Scenario::default() })
    }

    /// A command for the cluster, with the settings in `config.yaml` of the home, if it exists.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = program(self.home.path());
        command.env("RAY_AUTH_TOKEN", TOKEN).env("TZ", "UTC");
        command.args(["--address", &format!("http://{}", self.head.dashboard)]);
        command.args(["--gcs", &self.head.gcs.to_string()]);
        let settings = self.home.path().join("config.yaml");
        if settings.exists() {
            command.arg("--config").arg(settings);
        }
        command.args(args);
        command
    }

    /// Runs a command and checks that its output does not contain the token.
    pub fn run(&self, args: &[&str]) -> Ran {
        let ran = Ran::of(&self.command(args).output().unwrap());
        assert!(!ran.out.contains(TOKEN) && !ran.err.contains(TOKEN), "{}{}", ran.out, ran.err);
        ran
    }

    /// An empty transcript.
    pub fn transcript(&self) -> Transcript {
        Transcript::new(self.home.path())
    }

    /// Runs a command and adds it to a transcript.
    pub fn shows(&self, transcript: &mut Transcript, args: &[&str]) -> Ran {
        let ran = self.run(args);
        transcript.add(&args.join(" "), &ran);
        ran
    }

    /// Runs a command that must succeed; returns its standard output.
    pub fn ok(&self, args: &[&str]) -> String {
        self.run(args).good()
    }

    /// Like [`Self::ok`], parsed as JSON.
    pub fn json(&self, args: &[&str]) -> Value {
        self.run(args).exits(0).json()
    }

    /// Runs a command that prints one JSON object per line; accepts any exit code.
    pub fn lines(&self, args: &[&str]) -> Vec<Value> {
        self.run(args).lines()
    }

    /// Writes a file below the home directory.
    pub fn file(&self, name: &str, text: &str) {
        let path = self.home.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// The first submission with this status.
    pub fn job(&self, status: JobStatus) -> String {
        self.head.submissions(status).remove(0)
    }
}
