//! Tests of the content of a submission, and of the files that are never read.

use super::super::draft::{draft_of, wanted_of};
use super::*;
use crate::model::Draft;

#[test]
fn generated_ids_differ() {
    let (a, b) = (generated_id(), generated_id());
    assert_ne!(a, b);
    assert_eq!(a.len(), "raysubmit_".len() + 16);
}

#[test]
fn metadata_is_a_pair_or_json() {
    assert_eq!(pairs("owner=a=b").unwrap()["owner"], "a=b");
    assert_eq!(pairs(r#"{"owner": "a"}"#).unwrap()["owner"], "a");
    assert!(pairs("owner").is_err() && pairs("{owner}").is_err());
}

pub(in crate::operation) fn submitted() -> Submission {
    let env = json!({
        "working_dir": "gcs://_ray_pkg_1.zip", "env_vars": {"A": "hunter2", "B": "b"}, "pip": ["x"]
    });
    Submission {
        entrypoint: "python x.py".into(),
        submission_id: "old".into(),
        runtime_env: env.as_object().unwrap().clone(),
        metadata: BTreeMap::from([("owner".into(), "alice".into())]),
        entrypoint_num_cpus: Some(0.5),
        entrypoint_resources: BTreeMap::from([("TPU".into(), 4.0)]),
        entrypoint_label_selector: BTreeMap::from([("zone".into(), "a".into())]),
        ..Submission::default()
    }
}

/// A home directory with private files, and an environment that names it.
fn home() -> (tempfile::TempDir, Env) {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in
        [(".ssh/id_ed25519", "hunter2\n"), (".aws/credentials", "hunter2\n"), ("env.yaml", "hunter2: 1\n")]
    {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let env = Env::new(&[("HOME", dir.path().to_str().unwrap()), ("USER", "alice")], dir.path());
    (dir, env)
}

fn recorded_as(env: &Value) -> Submission {
    Submission { runtime_env: env.as_object().unwrap().clone(), ..submitted() }
}

#[test]
fn no_local_path_of_a_record_is_read_however_it_is_written() {
    let (dir, here) = home();
    let absolute = dir.path().join(".aws").display().to_string();
    for env in [
        json!({"pip": "~/.ssh/id_ed25519"}),
        json!({"pip": " ~/.ssh/id_ed25519 "}),
        json!({"uv": "~/.ssh/id_ed25519"}),
        json!({"conda": "env.yaml"}),
        json!({"py_modules": ["gcs://_ray_pkg_1.zip", "~/.aws"]}),
        json!({"py_modules": [absolute]}),
        // YAML would read the line break as a space.
        json!({"py_modules": ["~/.aws\u{85}"]}),
        json!({"working_dir": "~"}),
        json!({"working_dir": " ~/.aws "}),
        json!({"working_dir": "."}),
        json!({"working_dir": "$HOME"}),
    ] {
        let job = recorded_as(&env);
        let draft = draft_of(&job, "alice");
        let refused = |draft: &Draft| {
            let wanted = wanted_of(draft, Some(&job)).unwrap();
            prepared(&wanted, &here).map(|_| ()).expect_err(&env.to_string()).to_string()
        };
        assert!(refused(&draft).contains("which is not used"), "{env}: {}", refused(&draft));
        // It is not used either if something else is changed, as JSON or as YAML.
        let other = Draft { cpus: "2".into(), id: "again".into(), ..draft.clone() };
        assert!(refused(&other).contains("which is not used"), "{env}: {}", refused(&other));
        if !draft.runtime_env.is_empty() {
            let more = format!("{}, \"config\": {{}}}}", draft.runtime_env.trim_end_matches('}'));
            let json = Draft { runtime_env: more.clone(), ..draft.clone() };
            assert!(refused(&json).contains("which is not used"), "{more}: {}", refused(&json));
            let yaml = more.replace("\"config\"", "config");
            let message = refused(&Draft { runtime_env: yaml, ..draft });
            assert!(message.contains("keep it as JSON"), "{message}");
        }
    }
}

#[test]
fn the_rest_of_a_record_stays_as_it_is() {
    let (_dir, here) = home();
    let env = json!({
        "working_dir": "gcs://_ray_pkg_1.zip", "pip": {"packages": ["~/.ssh/id_ed25519", "$HOME"]}, "conda": "~/env",
        "config": {"x": "~/.aws"}, "env_vars": {"A": "$HOME/~", "HOME": "~"}, "excludes": ["!.git"]
    });
    let job = Submission { entrypoint: "cat ~/x $HOME".into(), ..recorded_as(&env) };
    let wanted = wanted_of(&draft_of(&job, "alice"), Some(&job)).unwrap();
    let (again, uploads) = prepared(&wanted, &here).unwrap();
    assert!(uploads.is_empty());
    assert_eq!(Submission { submission_id: "old".into(), ..again }, job);
}

#[test]
fn typed_paths_are_still_read_and_uploaded() {
    let (_dir, here) = home();
    let job = recorded_as(&json!({"working_dir": "~/.aws", "excludes": ["!.git"]}));
    let typed = Draft {
        working_dir: "~/.ssh".into(),
        runtime_env: r#"{"py_modules": ["~/.aws"], "pip": "~/.ssh/id_ed25519"}"#.into(),
        ..draft_of(&job, "alice")
    };
    let ready = |draft: &Draft| prepared(&wanted_of(draft, Some(&job)).unwrap(), &here);
    let (again, uploads) = ready(&typed).unwrap();
    assert_eq!((uploads.len(), &again.runtime_env["pip"]), (2, &json!(["hunter2"])));
    // Default exclusions of a directory are not affected by a record.
    let widened = Draft { runtime_env: r#"{"excludes": ["!.git"]}"#.into(), ..typed };
    let message = ready(&widened).map(|_| ()).unwrap_err().to_string();
    assert!(message.contains("!.git"), "{message}");
}

#[test]
fn exclusions_need_a_directory_to_which_they_apply() {
    let (_dir, here) = home();
    let ready = |working_dir: Option<&str>| {
        let exclude = vec!["*.bin".to_owned()];
        let working_dir = working_dir.map(str::to_owned);
        let wanted = JobRequest { entrypoint: "x".into(), exclude, working_dir, ..JobRequest::default() };
        prepared(&wanted, &here).map(|(_, uploads)| uploads.len()).map_err(|e| e.to_string())
    };
    assert_eq!(ready(Some(".ssh")), Ok(1));
    for none in [None, Some("gcs://_ray_pkg_1.zip")] {
        assert!(ready(none).unwrap_err().contains("--working-dir"), "{none:?}");
    }
    // Those in the record of a job that is submitted again belong to a directory that was packed before.
    let job = recorded_as(&json!({"working_dir": "gcs://_ray_pkg_1.zip", "excludes": ["*.bin"]}));
    let again = wanted_of(&draft_of(&job, "alice"), Some(&job)).unwrap();
    assert!(prepared(&again, &here).is_ok());
}

#[test]
fn a_job_carries_its_submitter_unless_another_owner_was_typed() {
    let (_dir, here) = home();
    let owner = |metadata: &[&str]| {
        let metadata = metadata.iter().map(ToString::to_string).collect();
        let wanted = JobRequest { entrypoint: "x".into(), metadata, ..JobRequest::default() };
        prepared(&wanted, &here).unwrap().0.metadata
    };
    let pairs = |all: &[(&str, &str)]| -> BTreeMap<String, String> {
        all.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    };
    assert_eq!(owner(&[]), pairs(&[("owner", "alice")]));
    assert_eq!(owner(&["user=bo", "x=1"]), pairs(&[("user", "bo"), ("x", "1")]));
    assert_eq!(owner(&["owner="]), pairs(&[("owner", "alice")]));
    // A person who resubmits another person's job owns the new job.
    let farids = Submission { metadata: pairs(&[("user", "farid"), ("experiment", "e")]), ..submitted() };
    let draft = draft_of(&farids, "alice");
    assert_eq!(draft.metadata, ["owner=alice", "experiment=e"]);
    let (again, _) = prepared(&wanted_of(&draft, Some(&farids)).unwrap(), &here).unwrap();
    assert_eq!(again.metadata, pairs(&[("owner", "alice"), ("experiment", "e")]));
    // The user is unknown.
    let (nameless, _) =
        prepared(&wanted_of(&draft_of(&farids, ""), Some(&farids)).unwrap(), &Env::default()).unwrap();
    assert_eq!(nameless.metadata, pairs(&[("experiment", "e")]));
}
