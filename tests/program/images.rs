//! `marin-tui image` with a stub of docker, which refuses what docker would refuse, and a simulated Google.

use crate::program::{Ran, kill, program};
use crate::running::Running;
use crate::shell;
use crate::transcript::Transcript;
use crate::until::until;
use marin_tui::demo::google::{Fault, Google as Double, PROJECT, registry};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use tokio::runtime::Runtime;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// The regions of the default image in the table that ships.
const REGIONS: [&str; 6] = ["europe-west4", "us-central1", "us-central2", "us-east1", "us-east5", "us-west4"];

/// A repository with the directory that ships, the stub of docker, and a Google.
struct Fixture {
    _runtime: Runtime,
    home: TempDir,
    double: Double,
}

impl Fixture {
    fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let double = runtime.block_on(Double::start()).unwrap();
        let home = tempfile::tempdir().unwrap();
        double.write_adc(home.path()).unwrap();
        let fixture = Self { _runtime: runtime, home, double };
        for folder in ["src/infra/docker", "bin", "stub", "tmp"] {
            fs::create_dir_all(fixture.file(folder)).unwrap();
        }
        for entry in fs::read_dir(format!("{ROOT}/infra")).unwrap().flatten().filter(|e| e.path().is_file()) {
            let text = fs::read_to_string(entry.path()).unwrap().replace("hai-gcp-models", PROJECT);
            fs::write(fixture.file("src/infra").join(entry.file_name()), text).unwrap();
        }
        fs::copy(format!("{ROOT}/infra/docker/Dockerfile"), fixture.file("src/infra/docker/Dockerfile"))
            .unwrap();
        fs::copy(format!("{ROOT}/tests/image/docker"), fixture.file("bin/docker")).unwrap();
        // Wherever git is installed on this machine.
        let path = std::env::var_os("PATH").unwrap();
        let mut paths = std::env::split_paths(&path).map(|folder| folder.join("git"));
        let git = paths.find(|git| git.is_file()).expect("install git");
        fs::write(fixture.file("bin/git"), format!("#!/bin/sh\nexec {} \"$@\"\n", git.display())).unwrap();
        fs::set_permissions(fixture.file("bin/git"), fs::Permissions::from_mode(0o755)).unwrap();
        fixture.git(&["init", "-q"]);
        fixture.commit();
        let settings = format!("google_endpoint: {}\n", fixture.double.url());
        fs::write(fixture.file("config.yaml"), settings).unwrap();
        fixture
    }

    fn file(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap_or_default()
    }

    fn git(&self, words: &[&str]) -> String {
        let mut git = Command::new(self.file("bin/git"));
        git.arg("-C").arg(self.file("src")).args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(words);
        let out = git.env("HOME", self.home.path()).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap().trim().to_owned()
    }

    /// Commits all files; returns the short hash.
    fn commit(&self) -> String {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", "x"]);
        self.git(&["rev-parse", "--short", "HEAD"])
    }

    fn command(&self, words: &str) -> Command {
        let mut command = program(self.home.path());
        command.args(words.split_whitespace()).arg("--config").arg(self.file("config.yaml"));
        command.arg("--infra").arg(self.file("src/infra"));
        command.env("GOOGLE_APPLICATION_CREDENTIALS", self.file("adc.json"));
        command.env("PATH", format!("{}:/usr/bin:/bin", self.file("bin").display()));
        command.env("STUB", self.file("stub")).env("TMPDIR", self.file("tmp"));
        command
    }

    fn run(&self, words: &str) -> Ran {
        Ran::of(&self.command(words).output().unwrap())
    }

    /// An empty transcript. Dates and commits differ from run to run.
    fn transcript(&self) -> Transcript {
        Transcript::new(self.home.path())
            .varying(r"\d{8}-[0-9a-f]{7,}", "DATE-COMMIT")
            .varying("commit [0-9a-f]{7,}", "commit COMMIT")
    }

    /// Runs a command and adds its output to the transcript.
    fn shows(&self, transcript: &mut Transcript, words: &str) -> Ran {
        let ran = self.run(words);
        transcript.add(words, &ran);
        ran
    }

    /// Creates repositories in these regions.
    fn repositories(&self, regions: &[&str]) {
        let made = |region: &&str| registry::repository(PROJECT, &format!("{region}/marin"));
        self.double.state().repositories = regions.iter().map(made).collect();
    }

    /// Lines of a file that the stub has written.
    fn lines(&self, name: &str) -> Vec<String> {
        self.text(&format!("stub/{name}")).lines().map(str::to_owned).collect()
    }

    fn left(&self) -> usize {
        fs::read_dir(self.file("tmp")).unwrap().count()
    }
}

fn today() -> String {
    jiff::Timestamp::now().strftime("%Y%m%d").to_string()
}

#[test]
fn an_image_is_built_under_its_date_and_commit() {
    let fixture = Fixture::new();
    let hash = fixture.commit();
    let dry = fixture.run("image build --dry-run --ray-version 2.60.0").good();
    assert!(
        dry.contains(" --build-arg RAY_VERSION=2.60.0 ") && dry.contains("docker build --platform"),
        "{dry}"
    );
    assert!(fixture.lines("calls").is_empty());
    let before = today();
    let ran = fixture.run("image build").exits(0);
    assert!(ran.err.contains("#5 building"), "{}", ran.err);
    let tags: Vec<&str> = ran.out.lines().collect();
    let expected = [before, today()].map(|day| format!("marin_cluster:{day}-{hash}"));
    assert!(expected.iter().any(|name| name == tags[0]) && tags[1] == "marin_cluster:latest", "{tags:?}");
    // With uncommitted changes the image could not be built again.
    fs::write(fixture.file("src/infra/docker/notes"), "x").unwrap();
    let mut shown = fixture.transcript();
    fixture.shows(&mut shown, "image build").exits(1);
    let allowed = fixture.run("image build --allow-dirty").good();
    assert!(allowed.lines().count() == 1 && allowed.trim().ends_with(&format!("-{hash}-dirty")), "{allowed}");
    assert_eq!(
        fixture.run("image build --allow-dirty --image marin_vllm --tag v1").good(),
        "marin_vllm:v1\n",
        "`latest` can be built again"
    );
    fs::write(fixture.file("stub/broken"), "").unwrap();
    fixture.shows(&mut shown, "image build --allow-dirty").exits(1);
    shown.is("images_that_are_not_built");
}

#[test]
fn invalid_tags_and_images_are_refused_before_anything_is_started() {
    let fixture = Fixture::new();
    let mut shown = fixture.transcript();
    for words in [
        "image build --tag latest@sha256:0a1b",
        "configs set-image sha256:0a1b",
        "image push --tag -x",
        "image build --tag a/b",
        "image build --ray-version a:b",
        "image build --image other",
        "image push --region us-centrl2",
        "--read-only image push",
    ] {
        assert_ne!(fixture.shows(&mut shown, words).code, Some(0), "{words}");
    }
    fs::remove_file(fixture.file("src/infra/docker/Dockerfile")).unwrap();
    fixture.shows(&mut shown, "image build --allow-dirty").exits(1);
    fs::remove_dir_all(fixture.file("src/.git")).unwrap();
    fixture.shows(&mut shown, "image push --region us-central2").exits(1);
    assert!(fixture.lines("calls").is_empty());
    shown.is("images_that_cannot_be");
}

#[test]
fn without_docker_the_error_shows_how_to_install_it() {
    let fixture = Fixture::new();
    let mut shown = fixture.transcript();
    let mut without = |words: &str, path: &str| {
        let ran = Ran::of(&fixture.command(words).env("PATH", fixture.file(path)).output().unwrap());
        shown.add(words, &ran);
        assert_eq!(ran.code, Some(1), "{words}");
    };
    without("image build", "tmp");
    without("image push --engine podman", "bin");
    // Docker is installed, but not executable.
    fs::set_permissions(fixture.file("bin/docker"), fs::Permissions::from_mode(0o644)).unwrap();
    without("image build", "bin");
    shown.is("images_without_docker");
}

#[test]
fn an_image_is_pushed_to_every_region_and_the_token_is_not_exposed() {
    let fixture = Fixture::new();
    fixture.repositories(&REGIONS[1..]);
    let mut shown = fixture.transcript();
    fixture.shows(&mut shown, "image push").exits(1);
    let built = fixture.run("image build").good();
    let local = built.lines().next().unwrap();
    let tag = local.split(':').nth(1).unwrap();
    let dry = fixture.run("image push --dry-run").good();
    assert!(dry.contains("repositories?repositoryId=marin\"") && dry.contains("\"DOCKER\""), "{dry}");
    assert_eq!(dry.matches("docker push ").count(), 12, "{dry}");
    fixture.shows(&mut shown, "image push").exits(1);
    shown.is("images_to_be_pushed");
    assert!(fixture.lines("pushed").is_empty() && fixture.double.state().repositories.len() == 5);

    let ran = fixture.run("image push --yes").exits(0);
    let remote =
        |region: &str, tag: &str| format!("{region}-docker.pkg.dev/{PROJECT}/marin/marin_cluster:{tag}");
    let all: Vec<String> =
        REGIONS.iter().flat_map(|region| [remote(region, tag), remote(region, "latest")]).collect();
    assert_eq!((fixture.lines("pushed"), ran.out.lines().map(str::to_owned).collect()), (all.clone(), all));
    assert_eq!(fixture.double.state().repositories.len(), 6);
    assert!(ran.err.contains("created europe-west4-docker.pkg.dev"), "{}", ran.err);
    // Other images have the default tag, too: only the clusters of this image are named.
    let line = ran.err.lines().find_map(|line| line.strip_prefix("to use it: `")?.strip_suffix('`')).unwrap();
    assert!(
        line.contains(&format!(" configs set-image {tag} marin-us-central2 ")) && !line.contains("vllm"),
        "{line}"
    );
    for option in ["--infra", "--config"] {
        assert_eq!(line.matches(option).count(), 1, "{line}");
    }
    shell::check(line).unwrap();
    // Docker gets the token on standard input, and its file is deleted with the temporary directory of the login.
    let seen = [ran.err, fixture.text("stub/calls"), fixture.text("stub/environment")].concat();
    assert!(!seen.contains("ya29."), "{seen}");
    assert_eq!((fixture.lines("modes"), fixture.left()), (vec!["700".to_owned(); 6], 0));
    assert!(!fixture.file(".docker").exists());
}

#[test]
fn podman_works_the_same_with_its_own_login() {
    let fixture = Fixture::new();
    fixture.repositories(&REGIONS);
    fs::rename(fixture.file("bin/docker"), fixture.file("bin/podman")).unwrap();
    fixture
        .transcript()
        .with("image build", &fixture.run("image build").exits(1))
        .is("podman_in_place_of_docker");
    let missing = fixture.run("image push --engine podman --image marin_vllm --tag t2 --allow-dirty").bad();
    let line = " image build --image marin_vllm --tag t2 --engine podman --allow-dirty`";
    assert!(missing.contains(line), "{missing}");
    let built = fixture.run("image build --engine podman --tag t1").good();
    assert_eq!(built, "marin_cluster:t1\nmarin_cluster:latest\n");
    let pushed = fixture.run("image push --engine podman --tag t1 --yes --region us-east5").exits(0);
    assert_eq!(pushed.out.lines().count(), 2, "{}", pushed.out);
    assert_eq!(fixture.lines("pushed").len(), 2);
    let seen = [pushed.err, fixture.text("stub/calls"), fixture.text("stub/environment")].concat();
    assert!(!seen.contains("ya29.") && !seen.contains("context inspect"), "{seen}");
    assert_eq!((fixture.lines("modes"), fixture.left()), (vec!["700".to_owned()], 0));
}

#[test]
fn results_are_printed_as_json_and_changes_are_audited() {
    let fixture = Fixture::new();
    fixture.repositories(&["us-central1", "us-central2"]);
    let planned = fixture.run("image build --tag t1 --dry-run --json").exits(0).json();
    assert_eq!(planned[0]["kind"], "run");
    let built = fixture.run("image build --tag t1 --json").exits(0).json();
    assert_eq!(built, json!({"images": ["marin_cluster:t1", "marin_cluster:latest"]}));
    let regions = "--region us-central1 --region us-central2 --region us-east5";
    let planned = fixture.run(&format!("image push --tag t1 --dry-run --json {regions}")).exits(0).json();
    let kinds: Vec<_> =
        planned.as_array().unwrap().iter().map(|call| call["kind"].as_str().unwrap()).collect();
    // One repository is created; then for each registry a login, and two tags, each set and pushed.
    assert_eq!((kinds[0], kinds.iter().filter(|kind| **kind == "run").count()), ("http", 15));
    assert!(fixture.run("audit --json").exits(0).json().as_array().unwrap().is_empty(), "nothing was done");
    fs::write(fixture.file("stub/refused"), "us-central1-").unwrap();
    let ran = fixture.run(&format!("image push --tag t1 --yes --json {regions}")).exits(1);
    let rows = ran.json();
    let fields = |row: &Value| {
        let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
        (
            text("registry")[..8].to_owned(),
            text("outcome"),
            row["created"] == true,
            row["images"].as_array().unwrap().len(),
        )
    };
    let expected =
        [("us-centr", "failed", false, 0), ("us-centr", "pushed", false, 2), ("us-east5", "pushed", true, 2)];
    let expected = expected.map(|(at, outcome, created, n)| (at.to_owned(), outcome.to_owned(), created, n));
    assert_eq!(rows.as_array().unwrap().iter().map(fields).collect::<Vec<_>>(), expected);
    assert!(
        rows[0]["error"].as_str().unwrap().contains("uploadArtifacts") && rows[1]["error"].is_null(),
        "{rows}"
    );
    let audit = fixture.run("audit --json").exits(0).json();
    let lines: Vec<String> = audit
        .as_array()
        .unwrap()
        .iter()
        .map(|line| {
            format!(
                "{} {}: {}",
                &line["cluster"].as_str().unwrap()[..11],
                line["action"].as_str().unwrap(),
                &line["outcome"].as_str().unwrap()[..6]
            )
        })
        .collect();
    let push = "image push marin_cluster:t1";
    let expected = [
        "us-east5-do create repository: create".to_owned(),
        format!("us-central1 {push}: failed"),
        format!("us-central2 {push}: pushed"),
        format!("us-east5-do {push}: pushed"),
    ];
    assert_eq!(lines, expected);
    fixture.run("image push --tag t1 --yes --json --set-image").exits(2);
}

#[test]
fn a_region_that_refuses_does_not_block_the_others() {
    let fixture = Fixture::new();
    fixture.repositories(&REGIONS);
    fixture.run("image build --tag t1").good();
    fs::write(fixture.file("stub/refused"), "us-central1-").unwrap();
    let mut shown = fixture.transcript();
    fixture.shows(&mut shown, "image push --tag t1 --yes --region us-central1 --region us-central2").exits(1);
    assert_eq!(fixture.lines("pushed").len(), 2);
    // Nothing is pushed before every repository was checked.
    fixture.double.fail_at(
        "GET",
        "us-east5/repositories",
        Fault::Recorded { code: 403, body: r#"{"error": {"code": 403, "message": "Permission 'artifactregistry.repositories.get' denied on resource 'r' (or it may not exist).", "status": "PERMISSION_DENIED", "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "IAM_PERMISSION_DENIED", "domain": "artifactregistry.googleapis.com", "metadata": {"permission": "artifactregistry.repositories.get"}}]}}"# },
    );
    fixture.shows(&mut shown, "image push --tag t1 --yes").exits(1);
    assert_eq!(fixture.lines("pushed").len(), 2);
    fixture.double.recover();
    let mut other = registry::repository(PROJECT, "us-east5/marin");
    other["format"] = "MAVEN".into();
    fixture.double.state().repositories = vec![other];
    fixture.shows(&mut shown, "image push --tag t1 --yes --region us-east5").exits(1);
    fixture.shows(&mut shown, "image push --tag t2 --region us-east5").exits(1);
    shown.is("images_that_are_refused");
}

#[test]
fn the_tag_is_set_in_the_table_for_the_clusters_with_the_image() {
    let fixture = Fixture::new();
    fixture.repositories(&REGIONS);
    fixture.run("image build --tag t1").good();
    fixture.run("image push --tag t1 --yes --set-image --region us-east5").good();
    let image = |cluster: &str| {
        let text = fixture.text(&format!("src/infra/{cluster}.yaml"));
        text.lines()
            .find(|line| line.trim().starts_with("image:"))
            .unwrap()
            .rsplit('/')
            .next()
            .unwrap()
            .to_owned()
    };
    assert_eq!(image("marin-us-east5"), "marin_cluster:t1");
    assert_eq!(image("marin-us-east5-a"), "marin_cluster:t1");
    assert_eq!(
        (image("marin-us-east5-b-vllm"), image("marin-us-west4")),
        ("marin_vllm:latest".into(), "marin_cluster:latest".into())
    );
}

#[test]
fn an_edit_of_the_table_during_a_push_is_kept() {
    let fixture = Fixture::new();
    fixture.repositories(&REGIONS);
    fixture.run("image build --tag t1").good();
    fs::write(fixture.file("stub/hold"), "").unwrap();
    let push = "image push --tag t1 --yes --set-image --region us-west4";
    let running = Running::start(fixture.command(push));
    until("docker pushes", || fixture.lines("calls").iter().any(|call| call.starts_with("push ")));
    let table = fixture.text("src/infra/clusters.yaml");
    let edited = table.replace("{v5p-64: 4}", "{v5p-64: 5}");
    assert_ne!(edited, table);
    fs::write(fixture.file("src/infra/clusters.yaml"), &edited).unwrap();
    fs::remove_file(fixture.file("stub/hold")).unwrap();
    let (code, _, said) = running.finish();
    assert_eq!(code, Some(0), "{said}");
    let written = fixture.text("src/infra/clusters.yaml");
    assert!(written.contains("{v5p-64: 5}") && written.contains("tag: t1"), "{written}");
}

#[test]
fn an_interrupted_push_leaves_no_login_behind() {
    let fixture = Fixture::new();
    fixture.repositories(&REGIONS);
    fixture.run("image build --tag t1").good();
    fs::write(fixture.file("stub/hold"), "").unwrap();
    let mut running = Running::start(fixture.command("image push --tag t1 --yes --region us-west4"));
    until("docker pushes", || fixture.lines("calls").iter().any(|call| call.starts_with("push ")));
    assert_eq!(fixture.left(), 1);
    kill("-INT", running.child.id());
    assert_eq!(running.child.wait().unwrap().code(), Some(1));
    assert_eq!((fixture.left(), fixture.lines("pushed").len()), (0, 0));
}

#[test]
fn an_untrusted_folder_is_not_used_without_a_confirmation() {
    let fixture = Fixture::new();
    let mut command = program(&fixture.file("src"));
    command.args(["image", "build"]).env("PATH", format!("{}:/usr/bin:/bin", fixture.file("bin").display()));
    command.env("STUB", fixture.file("stub"));
    let question = Ran::of(&command.output().unwrap()).bad();
    assert!(question.contains("Cannot ask for confirmation"), "{question}");
    assert!(fixture.lines("calls").is_empty(), "{question}");
    assert!(Path::new(&fixture.file("src/infra")).is_dir());
}
