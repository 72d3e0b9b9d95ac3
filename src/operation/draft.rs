//! Converts a job's record to a form, and a filled-in form to a job to be submitted.

use super::submit::{JobRequest, SubmitError, unfit};
use crate::model::draft::KEPT_VALUE;
use crate::model::text::printable;
use crate::model::{Draft, Job};
use crate::ray::Submission;
use serde_json::{Value, json};

/// The form for submitting a job again as the user `me`. Values of variables are replaced by [`KEPT_VALUE`], so that
/// they do not leave this module.
pub(super) fn draft_of(job: &Submission, me: &str) -> Draft {
    let mut env = job.runtime_env.clone();
    let variables = match env.remove("env_vars") {
        Some(Value::Object(variables)) => variables.keys().map(|k| format!("{k}={KEPT_VALUE}")).collect(),
        _ => Vec::new(),
    };
    let working_dir = match env.remove("working_dir") {
        Some(Value::String(dir)) => dir,
        _ => String::new(),
    };
    let number = |n: Option<f64>| n.map(|n| n.to_string()).unwrap_or_default();
    let owner = (!me.is_empty()).then(|| format!("{}={me}", Job::OWNER_KEYS[0])).into_iter();
    let theirs = job.metadata.iter().filter(|(key, _)| !Job::OWNER_KEYS.contains(&key.as_str()));
    let theirs = theirs.map(|(k, v)| format!("{k}={v}"));
    let table = |is_empty: bool, json: Value| if is_empty { String::new() } else { json.to_string() };
    Draft {
        like: Some(job.id()),
        entrypoint: job.entrypoint.clone(),
        working_dir,
        variables,
        runtime_env: table(env.is_empty(), Value::Object(env)),
        cpus: number(job.entrypoint_num_cpus),
        gpus: number(job.entrypoint_num_gpus),
        memory: job.entrypoint_memory.map(|n| n.to_string()).unwrap_or_default(),
        resources: table(job.entrypoint_resources.is_empty(), json!(job.entrypoint_resources)),
        label_selector: table(job.entrypoint_label_selector.is_empty(), json!(job.entrypoint_label_selector)),
        tpu: String::new(),
        seen: Vec::new(),
        id: String::new(),
        metadata: owner.chain(theirs).collect(),
    }
}

/// The submission that a filled-in form describes; `like` is the job that the form was made from.
pub(super) fn wanted_of(draft: &Draft, like: Option<&Submission>) -> Result<JobRequest, SubmitError> {
    let filled = |text: &str| (!text.trim().is_empty()).then(|| text.trim().to_owned());
    let number = |text: &str, what: &str| -> Result<Option<f64>, SubmitError> {
        let Some(text) = filled(text) else { return Ok(None) };
        let n = text.parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0);
        n.map(Some).ok_or_else(|| unfit!("{what}: `{}` is not a number", printable(&text)))
    };
    let before = like.and_then(|l| l.runtime_env.get("env_vars")).and_then(Value::as_object);
    let mut variables = Vec::new();
    for variable in draft.variables.iter().filter_map(|v| filled(v)) {
        match variable.split_once('=') {
            Some((name, KEPT_VALUE)) => {
                let value = before.and_then(|b| b.get(name)).and_then(Value::as_str);
                let value = value.ok_or_else(|| {
                    unfit!("{} has no saved value; enter one instead of {KEPT_VALUE}", printable(name))
                })?;
                variables.push(format!("{name}={value}"));
            }
            _ => variables.push(variable),
        }
    }
    Ok(JobRequest {
        entrypoint: draft.entrypoint.trim().to_owned(),
        working_dir: filled(&draft.working_dir),
        variables,
        runtime_env: filled(&draft.runtime_env),
        cpus: number(&draft.cpus, "cpus")?,
        gpus: number(&draft.gpus, "gpus")?,
        memory: filled(&draft.memory).map(|text| bytes(&text)).transpose()?,
        resources: filled(&draft.resources),
        metadata: draft.metadata.iter().filter_map(|m| filled(m)).collect(),
        id: filled(&draft.id),
        label_selector: filled(&draft.label_selector),
        record: like.map(|job| job.runtime_env.clone()),
        ..JobRequest::default()
    })
}

/// Parses a size in bytes: `2147483648`, `2 GB`, `2GiB`.
fn bytes(text: &str) -> Result<u64, SubmitError> {
    let at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let unit = match unit.trim() {
        "" | "B" => 1.0,
        "kB" | "KB" => 1e3,
        "MB" | "M" => 1e6,
        "GB" | "G" => 1e9,
        "TB" | "T" => 1e12,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        _ => return Err(unfit!("memory: `{}` is not a size like 2 GB", printable(text))),
    };
    let number = number.trim().parse::<f64>().ok().filter(|n| *n >= 0.0 && *n * unit < 1e18);
    number
        .map(|n| (n * unit) as u64)
        .ok_or_else(|| unfit!("memory: `{}` is not a size like 2 GB", printable(text)))
}

#[cfg(test)]
mod tests {
    use super::super::submit::prepared;
    use super::super::submit::tests::submitted;
    use super::*;
    use crate::config::Env;

    #[test]
    fn a_job_from_an_unchanged_form_differs_only_in_its_id_and_the_form_has_no_secrets() {
        let job = submitted();
        let draft = draft_of(&job, "alice");
        let everything = format!("{} {} {draft:?}", draft.variables.join(" "), draft.runtime_env);
        assert!(!everything.contains("hunter2"), "{everything}");
        let wanted = wanted_of(&draft, Some(&job)).unwrap();
        let (again, uploads) = prepared(&wanted, &Env::default()).unwrap();
        assert!(uploads.is_empty() && again.submission_id != "old");
        assert_eq!(Submission { submission_id: "old".into(), ..again }, job);
    }

    #[test]
    fn changes_are_applied_and_invalid_values_are_reported() {
        let job = submitted();
        let changed = Draft {
            variables: vec!["B=***".into(), "C=new".into(), String::new()],
            cpus: "2".into(),
            memory: "2 GB".into(),
            label_selector: r#"{"zone": "!a"}"#.into(),
            id: " mine ".into(),
            ..draft_of(&job, "alice")
        };
        let (again, _) = prepared(&wanted_of(&changed, Some(&job)).unwrap(), &Env::default()).unwrap();
        assert_eq!(again.runtime_env["env_vars"], json!({"B": "b", "C": "new"}));
        assert_eq!((again.submission_id.as_str(), again.entrypoint_memory), ("mine", Some(2_000_000_000)));
        assert_eq!(again.entrypoint_label_selector, [("zone".to_owned(), "!a".to_owned())].into());
        let cleared = Draft { label_selector: " ".into(), ..draft_of(&job, "alice") };
        let (again, _) = prepared(&wanted_of(&cleared, Some(&job)).unwrap(), &Env::default()).unwrap();
        assert!(!job.entrypoint_label_selector.is_empty() && again.entrypoint_label_selector.is_empty());
        let wrong = |draft: Draft| {
            let wanted = wanted_of(&draft, Some(&job));
            wanted.and_then(|w| prepared(&w, &Env::default())).map(|_| ()).unwrap_err().to_string()
        };
        assert!(wrong(Draft { cpus: "two".into(), ..draft_of(&job, "alice") }).contains("cpus: `two`"));
        assert!(wrong(Draft { memory: "2 cows".into(), ..draft_of(&job, "alice") }).contains("2 cows"));
        assert!(
            wrong(Draft { variables: vec!["Z=***".into()], ..draft_of(&job, "alice") })
                .contains("no saved value")
        );
        assert!(wrong(Draft { entrypoint: " ".into(), ..draft_of(&job, "alice") }).contains("empty"));
        assert!(wrong(Draft { resources: "TPU".into(), ..draft_of(&job, "alice") }).contains("JSON"));
        let selector = Draft { label_selector: "zone=a".into(), ..draft_of(&job, "alice") };
        assert!(wrong(selector).contains("the label selector is not JSON"));
    }
}
