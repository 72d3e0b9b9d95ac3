//! A token is rotated while a console is connected: a real Ray is restarted with another token, which is the latest
//! version in Secret Manager (the double, on the console's own host).

use crate::bed::{Bed, HOME, INFRA, Ray, TOKEN, inside_of};
use crate::pty::Pty;
use marin_tui::demo::google::{Google, PROJECT};
use marin_tui::gcp::random_token;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;
use tokio::runtime::Runtime;

/// Time limit for a restart of the cluster on two busy cores.
const LONG: Duration = Duration::from_secs(120);
/// Not the default secret, so that Ray's own token file, which the restart copies to the nodes, is not used.
const SECRET: &str = "BED_TOKEN";

/// The directories of one console or command on the client host, and its settings for the double.
struct Person {
    folder: PathBuf,
    env: Vec<(&'static str, String)>,
}

impl Person {
    fn new(name: &str, double: &Google) -> Self {
        let folder = Path::new(HOME).join("rotation").join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let settings = format!(
            "google_endpoint: {}\nclusters:\n  marin-bed: {{project: {PROJECT}, token_secret: {SECRET}}}\n",
            double.url()
        );
        fs::write(folder.join("config.yaml"), settings).unwrap();
        let adc = double.write_adc(&folder).unwrap();
        let at = |path: &Path| path.display().to_string();
        let env = vec![
            ("GOOGLE_APPLICATION_CREDENTIALS", at(&adc)),
            ("XDG_CACHE_HOME", at(&folder.join("cache"))),
            ("XDG_STATE_HOME", at(&folder.join("state"))),
        ];
        Self { folder, env }
    }

    fn argv<'a>(config: &'a str, args: &[&'a str]) -> Vec<&'a str> {
        [&[env!("CARGO_BIN_EXE_marin-tui"), "--infra", INFRA, "--config", config][..], args].concat()
    }

    fn config(&self) -> String {
        self.folder.join("config.yaml").display().to_string()
    }

    fn command(&self, args: &[&str]) -> Command {
        let config = self.config();
        let argv = Self::argv(&config, args);
        let mut command = Command::new(argv[0]);
        command.args(&argv[1..]).envs(self.env.iter().cloned());
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs a command that must succeed, and returns its whole output.
    fn ok(&self, args: &[&str]) -> String {
        let out = self.run(args);
        let output = [out.stdout, out.stderr].concat();
        let output = String::from_utf8_lossy(&output).into_owned();
        assert!(out.status.success(), "{args:?}: {output}");
        output
    }

    fn console(&self) -> Pty {
        let env: Vec<(&str, &str)> = self.env.iter().map(|(k, v)| (*k, v.as_str())).collect();
        let config = self.config();
        Pty::start(&Self::argv(&config, &[]), &env, 200, 60)
    }

    fn cached_token(&self) -> String {
        let file = self.folder.join(format!("cache/marin-tui/tokens/secrets/{PROJECT}.{SECRET}"));
        fs::read_to_string(file).unwrap_or_default().trim().to_owned()
    }
}

fn new_token() -> String {
    random_token().unwrap().expose().to_owned()
}

#[test]
fn consoles_and_commands_recover_from_a_token_rotation_by_themselves() {
    inside_of(
        || Bed::restarted(Ray::Newest),
        || {
            let runtime = Runtime::new().unwrap();
            let double = runtime.block_on(Google::start()).unwrap();
            let old = fs::read_to_string(TOKEN).unwrap().trim().to_owned();
            let new = new_token();
            double.put_secret(SECRET, &old);

            let (watcher, operator, latecomer) = (
                Person::new("watcher", &double),
                Person::new("operator", &double),
                Person::new("latecomer", &double),
            );
            let console = watcher.console();
            let up = |text: &str| text.contains("● up") && text.contains(" alive");
            console.wait_for("connection", LONG, up);
            assert_eq!(watcher.cached_token(), old);
            // One user fetches the token and returns after the rotation; another must reach the cluster with the old
            // token to restart it.
            for person in [&latecomer, &operator] {
                person.ok(&["list-jobs"]);
                assert_eq!(person.cached_token(), old);
            }

            // The rotation: a new version of the secret, and a restart of the cluster, which reads Ray's own token
            // file.
            double.put_secret(SECRET, &new);
            fs::write(TOKEN, &new).unwrap();
            // With the old token in RAY_AUTH_TOKEN, the restart reports that the new Ray refuses it, and is resumed
            // without the variable.
            let mut restart = operator.command(&["restart-cluster", "--yes", "--others"]);
            let stopped = restart.env("RAY_AUTH_TOKEN", &old).output().unwrap();
            let stderr = String::from_utf8_lossy(&stopped.stderr).into_owned();
            assert!(
                !stopped.status.success() && stderr.contains("refuses this token (from RAY_AUTH_TOKEN)"),
                "{stderr}"
            );
            assert!(
                stderr.contains("then resume") && !stderr.contains(&old) && !stderr.contains(&new),
                "{stderr}"
            );
            operator.ok(&["restart-cluster", "--resume"]);

            console.wait_for("automatic recovery", LONG, |text| up(text) && watcher.cached_token() == new);
            let output = latecomer.ok(&["list-jobs"]);
            assert_eq!(latecomer.cached_token(), new, "{output}");
            assert_eq!(fs::read_to_string(TOKEN).unwrap(), new, "Ray's own file is not changed");

            // The secret is newer than the cluster's token: the refused version is named.
            fs::write(
                latecomer.folder.join(format!("cache/marin-tui/tokens/secrets/{PROJECT}.{SECRET}")),
                "stale",
            )
            .unwrap();
            let ahead = new_token();
            double.put_secret(SECRET, &ahead);
            let refused = latecomer.run(&["list-jobs"]);
            let error = String::from_utf8_lossy(&refused.stderr).into_owned();
            let words =
                format!("refuses this token (version 3 of secret {SECRET} in project {PROJECT}, the latest)");
            assert!(!refused.status.success() && error.contains(&words), "{error}");

            let seen = String::from_utf8_lossy(&console.raw()).into_owned() + &output + &error;
            assert!(![&old, &new, &ahead].iter().any(|token| seen.contains(token.as_str())));
        },
    );
}
