//! The description of a row: everything that is known about a node, a job or a cluster.

use crate::app::fleet::cluster::Cluster;
use crate::app::job::vitals;
use crate::diagnose::Severity;
use crate::model::amount::{amount, bytes, grouped, shape};
use crate::model::cloud::Capacity;
use crate::model::text::printable;
use crate::model::time::brief;
use crate::model::{
    ClusterVitals, DeathReason, HeadAddress, Hint, Job, JobKey, JobStatus, Node, NodeId, Problem, Text,
    Timestamp,
};
use crate::reconcile::{Row as Tpu, TpuStatus};

/// Labels and texts, row by row.
pub type Lines = Vec<(String, String)>;

/// Prefix of a text that needs attention.
pub const WARNS: &str = "! ";
/// Prefix of a text that reports a current failure.
pub const BROKEN: &str = "▲ ";

/// The prefix of a text about something of this severity.
const fn sign(of: Severity) -> &'static str {
    match of {
        Severity::Bad => BROKEN,
        Severity::Warn => WARNS,
        Severity::Info => "",
    }
}

fn push(lines: &mut Lines, label: &str, text: impl Into<String>) {
    let text = text.into();
    if !text.is_empty() {
        lines.push((label.to_owned(), text));
    }
}

/// A problem and its hint, which `words` converts to text.
pub(in crate::app) fn of_problem(problem: &Problem, words: impl Fn(&Hint) -> String) -> Lines {
    let mut lines = vec![("problem".to_owned(), printable(&problem.what).into_owned())];
    push(&mut lines, "hint", words(&problem.hint));
    lines
}

/// Starts a section: a title on its own line, as a label without a text.
pub(in crate::app) fn heading(lines: &mut Lines, title: &str) {
    lines.push((String::new(), String::new()));
    lines.push((title.to_owned(), String::new()));
}

/// Adds a list with the label on its first line; the other lines are indented.
pub(in crate::app) fn list(lines: &mut Lines, label: &str, texts: impl IntoIterator<Item = String>) {
    for (i, text) in texts.into_iter().enumerate() {
        push(lines, if i == 0 { label } else { " " }, text);
    }
}

fn pairs(lines: &mut Lines, label: &str, pairs: &[(Text, Text)]) {
    list(lines, label, pairs.iter().map(|(key, value)| format!("{key} = {value}")));
}

/// Time since `at`, e.g. `3h 02m ago`.
pub fn ago(at: Timestamp, now: Timestamp) -> String {
    format!("{} ago", brief(at.age(now)))
}

/// The description of a node of that cluster. A conflict with Google Cloud, or the cause of death, comes first; `words`
/// converts hints to text.
pub fn node(node: &Node, cluster: &Cluster, words: impl Fn(&Hint) -> String, now: Timestamp) -> Lines {
    let physical = cluster.physical(&node.id, now);
    let mut lines = Vec::new();
    if cluster.tpus.is_ghost(node) {
        let hint = words(&TpuStatus::Ghost.hint(""));
        push(&mut lines, "stale node", format!("{WARNS}alive in Ray, but deleted in Google Cloud; {hint}"));
    }
    if let Some(death) = &node.death {
        let sign = if death.reason == DeathReason::Expected { "" } else { BROKEN };
        push(&mut lines, "cause", format!("{sign}{}: {}", death_label(death.reason), death.message));
    }
    // Ray uses a node's address as its name if it was given none.
    let name = cluster.node_name(node);
    push(&mut lines, "name", name.to_string());
    if ![name, &node.address].contains(&&node.name) {
        push(&mut lines, "name in Ray", node.name.to_string());
    }
    push(&mut lines, "id", node.id.to_string());
    if *name != node.address {
        push(&mut lines, "address", node.address.to_string());
    }
    push(&mut lines, "host name", node.hostname.to_string());
    push(&mut lines, "type", node.node_type.to_string());
    push(&mut lines, "instance", node.instance_id.to_string());
    push(&mut lines, "state", node_state(node, cluster, now));
    push(&mut lines, "started", node.started.map(|t| ago(t, now)).unwrap_or_default());
    push(&mut lines, "ended", node.ended.map(|t| ago(t, now)).unwrap_or_default());
    let idle = node.idle_ms.map(|ms| brief(std::time::Duration::from_millis(ms)));
    push(&mut lines, "idle for", idle.unwrap_or_default());
    let resources = node.resources.0.iter().map(|r| {
        let used = r.used.map_or_else(|| "?".into(), |u| amount(r.name.raw(), u));
        format!("{} {used} of {}", r.name, amount(r.name.raw(), r.total))
    });
    list(&mut lines, "resources", resources);
    if let Some(p) = physical {
        let percent = p.cpu_percent.map(|c| format!("{c:.0}% of the machine")).unwrap_or_default();
        push(&mut lines, "cpu", percent);
        let share =
            |m: Option<(u64, u64)>| m.map(|(u, t)| format!("{} of {}", bytes(u as f64), bytes(t as f64)));
        push(&mut lines, "memory", share(p.memory).unwrap_or_default());
        push(&mut lines, "disk", share(p.disk).unwrap_or_default());
        for (i, chip) in p.tpus.iter().enumerate() {
            let busy = chip.tensorcore_percent.map_or_else(|| "?".into(), |c| format!("{c:.0}%"));
            push(
                &mut lines,
                &format!("tpu {i}"),
                format!("{busy}, {}", share(chip.memory).unwrap_or_default()),
            );
        }
    }
    pairs(&mut lines, "labels", &node.labels);
    lines
}

/// The state of a node as a word, the same in the table and on its page.
pub fn node_state(node: &Node, cluster: &Cluster, now: Timestamp) -> &'static str {
    match () {
        () if node.is_lost(now) => "lost",
        () if cluster.tpus.is_ghost(node) => "stale",
        () => node.state.label(),
    }
}

/// Ray's reason for a node's death, as a word.
pub fn death_label(reason: DeathReason) -> &'static str {
    match reason {
        DeathReason::Unspecified => "unknown",
        DeathReason::Expected => "stopped",
        DeathReason::Unexpected => "lost",
        DeathReason::Preempted => "preempted",
    }
}

/// The description of a job of that cluster. Its problems come first; `words` converts hints to text.
pub fn job(job: &Job, cluster: &Cluster, words: impl Fn(&Hint) -> String, now: Timestamp) -> Lines {
    let mut lines = Vec::new();
    if job.status == JobStatus::Failed {
        let error = Job::in_a_line(job.message.raw()).map(|line| format!(": {}", printable(&line)));
        push(&mut lines, "issue", format!("{BROKEN}failed{}", error.unwrap_or_default()));
    }
    if let Some(why) = cluster.pending.get(&job.key) {
        push(&mut lines, "reason", format!("{WARNS}{}", why.text));
        if let Some(finding) = cluster.findings.iter().find(|f| Some(f.kind) == why.finding) {
            let sign = sign(finding.severity);
            push(&mut lines, "issue", format!("{sign}{}: {}", finding.label(), finding.long));
            push(&mut lines, "hint", words(&finding.hint));
        }
    }
    for (severity, text) in vitals::wrong(job, cluster, now) {
        push(&mut lines, severity.label(), format!("{}{text}", sign(severity)));
    }
    for finding in cluster.findings.iter().filter(|finding| finding.job() == Some(&job.key)) {
        push(&mut lines, "hint", words(&finding.hint));
    }
    let kind = match &job.key {
        JobKey::Submission(_) => "submission",
        JobKey::Driver(_) => "driver, started manually",
    };
    push(&mut lines, "id", job.key.to_string());
    push(&mut lines, "kind", kind);
    push(&mut lines, "job id", job.driver.as_ref().map(ToString::to_string).unwrap_or_default());
    push(&mut lines, "owner", job.owner().map(|o| Text::from(o).to_string()).unwrap_or_default());
    push(&mut lines, "status", cluster.vitals.status_text(job));
    lines.extend(vitals::lines(job, cluster, now));
    push(&mut lines, "requested", job.requested.as_deref().map(shape).unwrap_or_default());
    push(&mut lines, "entrypoint", job.entrypoint.to_string());
    let is_pending = job.status == JobStatus::Pending;
    let (began, lasted) = if is_pending { ("submitted", "pending for") } else { ("started", "duration") };
    push(&mut lines, began, job.started.map(|t| ago(t, now)).unwrap_or_default());
    push(&mut lines, "ended", job.ended.map(|t| ago(t, now)).unwrap_or_default());
    push(&mut lines, lasted, duration(job, now).unwrap_or_default());
    push(&mut lines, "exit code", job.exit_code.map(|c| c.to_string()).unwrap_or_default());
    push(&mut lines, "error", job.error_type.to_string());
    list(&mut lines, "message", job.message.raw().lines().map(crate::model::text::log_line));
    push(
        &mut lines,
        "driver on",
        job.driver_node.map(|id| driver_location(&id, cluster)).unwrap_or_default(),
    );
    pairs(&mut lines, "metadata", &job.metadata);
    lines
}

fn driver_location(id: &NodeId, cluster: &Cluster) -> String {
    cluster.node_label(id).map_or_else(|| id.to_string(), |name| format!("{name}, {id}"))
}

/// How long a job ran, or has been running or pending; `None` if its start is unknown.
pub fn duration(job: &Job, now: Timestamp) -> Option<String> {
    Some(brief(job.started?.age(job.ended.unwrap_or(now))))
}

/// The description of a cluster, its issues first; `words` converts hints to text.
pub fn cluster(c: &Cluster, words: impl Fn(&Hint) -> String, now: Timestamp) -> Lines {
    let mut lines = Vec::new();
    if let Some(p) = c.problem() {
        push(&mut lines, "issue", format!("{BROKEN}{} ({})", p.what, ago(p.since, now)));
        push(&mut lines, "hint", words(&p.hint));
    }
    for finding in c.findings.iter().skip(usize::from(c.problem().is_some())) {
        let when =
            finding.age(now).map(|age| format!(" ({})", finding.when(&brief(age)))).unwrap_or_default();
        let text = format!("{}{}: {}{when}", sign(finding.severity), finding.label(), finding.long);
        push(&mut lines, "issue", text);
        push(&mut lines, "hint", words(&finding.hint));
    }
    push(&mut lines, "name", c.name().to_string());
    let file =
        c.spec.file.as_ref().map(|f| crate::model::text::printable(&f.display().to_string()).into_owned());
    push(&mut lines, "file", file.unwrap_or_default());
    push(&mut lines, "provider", c.spec.provider.name().to_owned());
    push(&mut lines, "zone", c.spec.zone.clone().unwrap_or_default());
    let head = if c.spec.head == HeadAddress::RayLookup { "head found by" } else { "head" };
    push(&mut lines, head, c.spec.head_text());
    let ports = crate::model::service::addresses(c.name(), &c.ports);
    push(&mut lines, "local ports", ports);
    push(&mut lines, "ray", c.snapshot.ray_version.to_string());
    push(&mut lines, "session", c.snapshot.session.to_string());
    for t in &c.spec.node_types {
        push(&mut lines, "node type", format!("{} min {}, max {}", t.name, t.min, t.max));
    }
    let cost = format!(
        "{} from this console in the last minute, {} received",
        c.cost.requests_per_minute,
        bytes(c.cost.bytes_per_minute as f64)
    );
    push(&mut lines, "requests", cost);
    push(&mut lines, "job vitals", vitals::cost(&c.vitals, now));
    lines
}

/// A job as a line: state, duration, owner.
pub fn in_a_line(job: &Job, vitals: &ClusterVitals, now: Timestamp) -> String {
    let age = duration(job, now).map(|d| format!(" {d}")).unwrap_or_default();
    format!("{}{age}, {}", vitals.status(job).label(), job.owner_label())
}

/// The lines of the question before a job is stopped, including the progress that would be lost.
pub fn before_stop(job: &Job, cluster: &Cluster, now: Timestamp) -> Lines {
    let mut lines = Vec::new();
    push(&mut lines, "cluster", cluster.name().to_string());
    push(&mut lines, "job", job.key.to_string());
    push(&mut lines, "owner", job.owner_label());
    let age = duration(job, now).map(|d| format!(" for {d}")).unwrap_or_default();
    push(&mut lines, "status", format!("{}{age}", cluster.vitals.status(job).label()));
    lines.extend(crate::app::job::vitals::lost_if_stopped(job, cluster, now));
    push(&mut lines, "entrypoint", job.entrypoint.to_string());
    lines.push((String::new(), String::new()));
    let consequence = match job.status {
        JobStatus::Pending => {
            "The job has not started. Some versions of Ray ignore stop requests for pending jobs; a message will report whether it ended."
        }
        _ => "Ray sends SIGTERM to its driver, and SIGKILL 3 s later. Unsaved work is lost.",
    };
    lines.push((String::new(), consequence.into()));
    lines
}

/// The description of a TPU slice or request; `words` converts its hint to text.
pub fn tpu(row: &Tpu, ray_known: bool, words: impl Fn(&Hint) -> String, now: Timestamp) -> Lines {
    let mut lines = Vec::new();
    let mut push = |label: &str, text: String| push(&mut lines, label, text);
    push("name", row.name.to_string());
    push("status", row.status.label().into());
    push("hint", words(&row.hint()));
    push("Google state", row.state.as_ref().map_or_else(|| "not found".into(), ToString::to_string));
    push("note", row.note.as_ref().map(ToString::to_string).unwrap_or_default());
    push("type", row.accelerator_type.to_string());
    push("chips", grouped(row.chips as usize));
    push("node type", row.ray_type.as_ref().map(ToString::to_string).unwrap_or_default());
    push("capacity", row.capacity.map_or("", Capacity::label).into());
    push("managed by", row.keeper.label().into());
    push("requested", row.created.map(|t| ago(t, now)).unwrap_or_default());
    for (i, host) in row.logins.iter().enumerate() {
        let in_ray = match () {
            () if !ray_known => "Ray unknown",
            () if row.missing.contains(&host.internal) => "not in Ray",
            () => "in Ray",
        };
        let external = host.external.as_ref().map(|e| format!(" ({e})")).unwrap_or_default();
        let address =
            if host.internal.is_empty() { "no address yet".into() } else { host.internal.to_string() };
        push(if i == 0 { "hosts" } else { " " }, format!("{i}  {address}{external}  {in_ray}"));
    }
    lines
}
