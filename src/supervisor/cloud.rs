//! A cluster's TPUs at Google Cloud: their location, their state, and the deletion of preempted ones.

use crate::gcp::{GcpError, Google, TpuLocation};
use crate::model::cloud::CloudView;
use crate::model::{Cleaned, ClusterSpec, Leftover, Problem, ProblemKind, Provider, Timestamp};

/// The location of the cluster's TPUs according to its file.
pub fn tpu_location(spec: &ClusterSpec) -> Result<TpuLocation, Problem> {
    let problem = |what: String, hint: &str| Problem::new(ProblemKind::Config, what, hint, Timestamp::now());
    if spec.provider != Provider::Gcp {
        let provider = match spec.provider {
            Provider::None => "this cluster has no provider".to_owned(),
            other => format!("this cluster's provider is {other}"),
        };
        let what = format!("TPUs require provider gcp; {provider}");
        return Err(problem(what, "use a cluster with provider gcp"));
    }
    let Some(project) = spec.google.project.clone() else {
        return Err(problem(
            "its project is unknown".into(),
            "set `provider.project_id` in its file, or `project` of the cluster in the settings",
        ));
    };
    // Both become parts of a URL.
    let is_word = |w: &str| {
        !w.is_empty() && w.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b':'))
    };
    match spec.zone.clone().filter(|z| is_word(z) && is_word(&project)) {
        Some(zone) => Ok(TpuLocation { project, zone, cluster: spec.name.as_str().to_owned() }),
        None => Err(problem(
            "its zone or project is unknown".into(),
            "set `provider.availability_zone` and `provider.project_id` in its file",
        )),
    }
}

/// Everything that Google has in the cluster's zone.
pub async fn ask_cloud(spec: &ClusterSpec, google: &Google) -> Result<CloudView, Problem> {
    let location = tpu_location(spec)?;
    google.tpus(&location.project, &location.zone, Timestamp::now()).await.map_err(|e| problem(&e))
}

/// Deletes leftovers of this cluster and waits until they are gone. Each is read again before it is deleted; `report`
/// receives each result.
pub async fn clean(
    spec: &ClusterSpec,
    google: &Google,
    all: Vec<Leftover>,
    report: impl Fn(&Leftover, &Cleaned),
) -> Result<Vec<(Leftover, Cleaned)>, Problem> {
    Ok(google.clean(&tpu_location(spec)?, all, report).await)
}

/// The kind of a problem that Google reported: a quota problem if Google asks to wait, otherwise the given kind.
pub(super) fn kind(e: &GcpError, otherwise: ProblemKind) -> ProblemKind {
    e.retry_after().map_or(otherwise, |after| ProblemKind::Quota { after })
}

/// The same, with [`ProblemKind::Login`] for an error of the login.
pub(super) fn kind_or_login(e: &GcpError) -> ProblemKind {
    if e.is_login() { ProblemKind::Login } else { kind(e, ProblemKind::Other) }
}

fn problem(e: &GcpError) -> Problem {
    Problem::new(kind_or_login(e), e.to_string(), e.hint(), Timestamp::now())
}
