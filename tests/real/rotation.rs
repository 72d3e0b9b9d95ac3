//! A token is rotated under a console that is connected: a real Ray is restarted with another one, and Secret Manager
//! (the double, on the console's own host) has it as the latest version.

use crate::bed::{Bed, HOME, INFRA, Ray, TOKEN, inside_of};
use crate::pty::Pty;
use marin_tui::demo::google::{Google, PROJECT};
use marin_tui::gcp::random_token;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;
use tokio::runtime::Runtime;

/// A restart of the cluster: what takes longer than a frame on two busy cores.
const LONG: Duration = Duration::from_secs(120);
/// Not the default secret, so that Ray's own file, which the restart carries to the nodes, does not count.
const SECRET: &str = "BED_TOKEN";

/// A console's or a command's own folders on the client host, and the way to the double.
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

    /// Runs what must succeed; all that it said.
    fn ok(&self, args: &[&str]) -> String {
        let out = self.run(args);
        let said = [out.stdout, out.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(out.status.success(), "{args:?}: {said}");
        said
    }

    fn console(&self) -> Pty {
        let env: Vec<(&str, &str)> = self.env.iter().map(|(k, v)| (*k, v.as_str())).collect();
        let config = self.config();
        Pty::start(&Self::argv(&config, &[]), &env, 200, 60)
    }

    fn kept(&self) -> String {
        let file = self.folder.join(format!("cache/marin-tui/tokens/secrets/{PROJECT}.{SECRET}"));
        fs::read_to_string(file).unwrap_or_default().trim().to_owned()
    }
}

fn made_up() -> String {
    random_token().unwrap().expose().to_owned()
}

#[test]
fn a_console_recovers_from_a_rotation_without_a_key_and_commands_too() {
    inside_of(
        || Bed::restarted(Ray::Newest),
        || {
            let runtime = Runtime::new().unwrap();
            let double = runtime.block_on(Google::start()).unwrap();
            let old = fs::read_to_string(TOKEN).unwrap().trim().to_owned();
            let new = made_up();
            double.put_secret(SECRET, &old);

            let (watcher, operator, latecomer) = (
                Person::new("watcher", &double),
                Person::new("operator", &double),
                Person::new("latecomer", &double),
            );
            let console = watcher.console();
            let up = |text: &str| text.contains("● up") && text.contains(" alive");
            console.wait_for("connection", LONG, up);
            assert_eq!(watcher.kept(), old);
            // One who fetched the token, and comes back after the rotation; and one who has to reach the cluster as it
            // still is to restart it.
            for person in [&latecomer, &operator] {
                person.ok(&["list-jobs"]);
                assert_eq!(person.kept(), old);
            }

            // The rotation: a new version, and the cluster restarted with it. The latter reads Ray's own file.
            double.put_secret(SECRET, &new);
            fs::write(TOKEN, &new).unwrap();
            // Who set the old one for good has the answer once the new Ray refuses it, and goes on without.
            let mut restart = operator.command(&["restart-cluster", "--yes", "--others"]);
            let stopped = restart.env("RAY_AUTH_TOKEN", &old).output().unwrap();
            let told = String::from_utf8_lossy(&stopped.stderr).into_owned();
            assert!(
                !stopped.status.success() && told.contains("refuses this token (from RAY_AUTH_TOKEN)"),
                "{told}"
            );
            assert!(told.contains("then resume") && !told.contains(&old) && !told.contains(&new), "{told}");
            operator.ok(&["restart-cluster", "--resume"]);

            console.wait_for("recovery by itself", LONG, |text| up(text) && watcher.kept() == new);
            let said = latecomer.ok(&["list-jobs"]);
            assert_eq!(latecomer.kept(), new, "{said}");
            assert_eq!(fs::read_to_string(TOKEN).unwrap(), new, "Ray's own file is left alone");

            // The secret moves on and the cluster does not: the version that is refused is named.
            fs::write(
                latecomer.folder.join(format!("cache/marin-tui/tokens/secrets/{PROJECT}.{SECRET}")),
                "stale",
            )
            .unwrap();
            let ahead = made_up();
            double.put_secret(SECRET, &ahead);
            let refused = latecomer.run(&["list-jobs"]);
            let error = String::from_utf8_lossy(&refused.stderr).into_owned();
            let words = format!("refuses this token (version 3 of secret {SECRET} of {PROJECT}, the latest)");
            assert!(!refused.status.success() && error.contains(&words), "{error}");

            let seen = String::from_utf8_lossy(&console.raw()).into_owned() + &said + &error;
            assert!(![&old, &new, &ahead].iter().any(|token| seen.contains(token.as_str())));
        },
    );
}
