//! A directory with cluster files, and the programs that old lines call.

use crate::program::{Ran, program};
use clap::CommandFactory as _;
use marin_tui::cli::{Arguments, old};
use marin_tui::config::Env;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// The names by which lines call the program.
pub const OURS: [&str; 4] = ["marin-tui", "cluster.py", "ray_run.py", "manual_ray_worker_launch.py"];

/// A directory with cluster files and the programs of the lines.
pub struct Desk {
    pub dir: TempDir,
    /// Variables with which clusters are reached.
    env: Vec<(String, String)>,
    /// The simulated fleet; `None` if no cluster is needed.
    fleet: Option<Child>,
}

impl Desk {
    /// Without clusters that respond.
    pub fn new() -> Self {
        // The path of a control socket is limited to about 100 bytes.
        let dir = tempfile::Builder::new().prefix("mt").tempdir_in("/tmp").unwrap();
        for part in ["infra", "bin"] {
            fs::create_dir(dir.path().join(part)).unwrap();
        }
        let desk = Self { dir, env: Vec::new(), fleet: None };
        let infra = Path::new(env!("CARGO_MANIFEST_DIR")).join("infra");
        for file in fs::read_dir(infra).unwrap().map(|e| e.unwrap().path()).filter(|f| f.is_file()) {
            fs::copy(&file, desk.at("infra").join(file.file_name().unwrap())).unwrap();
        }
        let ours = format!(
            "[ -z \"$WORDS\" ] || {{ for word; do printf '%s\\0' \"$word\"; done >\"$WORDS\"; exit; }}\nexec {} \"$@\"\n",
            env!("CARGO_BIN_EXE_marin-tui")
        );
        for name in OURS {
            desk.script(name, &ours);
        }
        desk.script("uv", "shift\nscript=$(basename \"$1\")\nshift\nexec \"$script\" \"$@\"\n");
        desk.script("python", "script=$(basename \"$1\")\nshift\nexec \"$script\" \"$@\"\n");
        desk.settings("{}");
        desk
    }

    /// With a simulated fleet.
    pub fn with_fleet() -> Self {
        let mut desk = Self::new();
        let mut serve = program(desk.dir.path());
        serve.args(["demo", "--serve", "--scenario", "calm"]).env("TMPDIR", desk.dir.path());
        let mut fleet = serve.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(fleet.stdout.take().unwrap()).read_line(&mut line).unwrap();
        desk.fleet = Some(fleet);
        let info: Value = serde_json::from_str(&line).unwrap();
        let env = info["env"].as_object().unwrap().iter();
        desk.env = env.map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())).collect();
        desk.settings(&fs::read_to_string(info["settings"].as_str().unwrap()).unwrap());
        desk
    }

    /// Writes the settings file that is read without `--config`, with the directory of the cluster files.
    fn settings(&self, text: &str) {
        let mut settings: Value = serde_json::from_str(text).unwrap();
        settings["infra"] = json!([self.at("infra")]);
        let config =
            self.env.iter().find(|(name, _)| name == "XDG_CONFIG_HOME").map(|(_, at)| PathBuf::from(at));
        let folder = config.unwrap_or_else(|| self.at(".config")).join("marin-tui");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("config.yaml"), settings.to_string()).unwrap();
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn script(&self, name: &str, text: &str) {
        let file = self.at("bin").join(name);
        fs::write(&file, format!("#!/bin/sh\n{text}")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = program(self.dir.path());
        command.args(words).envs(self.env.iter().cloned());
        command
    }

    pub fn run(&self, words: &[&str]) -> Ran {
        Ran::of(&self.command(words).output().unwrap())
    }

    /// A line in a shell that finds the programs.
    pub fn shell(&self, line: &str) -> Command {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", line]).env_clear().envs(self.env.iter().cloned()).env("HOME", self.dir.path());
        shell
            .env("GCE_METADATA_HOST", "127.0.0.1:9")
            .env("USER", "me")
            .current_dir(self.dir.path())
            .stdin(Stdio::null());
        shell.env("PATH", format!("{}:/usr/bin:/bin", self.at("bin").display()));
        shell
    }

    pub fn typed(&self, line: &str) -> Ran {
        Ran::of(&self.shell(line).output().unwrap())
    }

    /// The arguments that the program gets from a line.
    pub fn text(&self, line: &str) -> Vec<String> {
        let file = self.at("words");
        let _ = fs::remove_file(&file);
        let ran = Ran::of(&self.shell(line).env("WORDS", &file).output().unwrap());
        assert_eq!((ran.code, ran.out, ran.err), (Some(0), String::new(), String::new()), "{line}");
        let text = fs::read_to_string(&file).unwrap_or_else(|e| panic!("{line}: {e}"));
        text.split_terminator('\0').map(str::to_owned).collect()
    }

    /// The line in its current form, or the reason why it is not run.
    pub fn renewed(&self, line: &str) -> Result<String, String> {
        let words = self.text(line);
        let renewed = old::renew(&words, &Arguments::command(), &Env::new(&[], self.dir.path()))?;
        Ok(renewed.map_or_else(|| line.to_owned(), |renewed| renewed.line))
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        if let Some(mut fleet) = self.fleet.take() {
            drop(fleet.stdin.take());
            let _ = fleet.wait();
        }
    }
}
