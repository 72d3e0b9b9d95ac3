//! A simulated head, and a person's home from which commands attach to it by its address.

use crate::program::{Ran, program};
use crate::transcript::Transcript;
use marin_tui::demo::{Head, Life, Scenario};
use marin_tui::model::{JobStatus, Secret};
use serde_json::Value;
use std::fs;
use std::process::Command;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// The token of the head, which no output may show.
pub const TOKEN: &str = "tok-5e0c91d7-never-shown";

/// A simulated head that asks for a token, and a person's home.
pub struct Place {
    pub runtime: Runtime,
    pub head: Head,
    pub home: TempDir,
}

impl Place {
    /// A head as the scenario has it, with a token.
    pub fn new(scenario: Scenario) -> Self {
        let runtime = Runtime::new().unwrap();
        let scenario = Scenario { token: Some(Secret::new(TOKEN)), ..scenario };
        let head = runtime.block_on(Head::start(scenario)).unwrap();
        // A control socket's path has about 100 bytes.
        let home = tempfile::Builder::new().prefix("mt").tempdir_in("/tmp").unwrap();
        Self { runtime, head, home }
    }

    /// A head of this version of Ray with the life that the YAML describes, and nothing else.
    pub fn with_life(life: &str, ray: &str) -> Self {
        let life: Life = serde_yaml::from_str(life).unwrap();
        let (ray_version, life) = (ray.into(), Some(life));
        Self::new(Scenario { jobs: 0, dead: 0, log_rate: 1, ray_version, life, ..Scenario::default() })
    }

    /// A command on the cluster, with the settings in `config.yaml` of the home, if there are some.
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

    /// Runs a command. None may show the token.
    pub fn run(&self, args: &[&str]) -> Ran {
        let ran = Ran::of(&self.command(args).output().unwrap());
        assert!(!ran.out.contains(TOKEN) && !ran.err.contains(TOKEN), "{}{}", ran.out, ran.err);
        ran
    }

    /// A picture of commands, which begins empty.
    pub fn transcript(&self) -> Transcript {
        Transcript::new(self.home.path())
    }

    /// Runs a command for a picture.
    pub fn shows(&self, transcript: &mut Transcript, args: &[&str]) -> Ran {
        let ran = self.run(args);
        transcript.add(&args.join(" "), &ran);
        ran
    }

    /// Runs what must succeed; its standard output.
    pub fn ok(&self, args: &[&str]) -> String {
        self.run(args).good()
    }

    /// The same, as JSON.
    pub fn json(&self, args: &[&str]) -> Value {
        self.run(args).exits(0).json()
    }

    /// The objects of a command that prints one a line, however it ends.
    pub fn lines(&self, args: &[&str]) -> Vec<Value> {
        self.run(args).lines()
    }

    /// Writes a file below the home.
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
