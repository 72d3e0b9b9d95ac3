//! The page of a host: its row in full, its chips, Ray's processes and their jobs, its log files.

use crate::app::host::chips::figures;
use crate::app::pages::details::{Details, Inspected};
use crate::app::table::facts::CellContext;
use crate::app::text::describe::{self, Lines, ago, heading, list};
use crate::app::text::labels;
use crate::app::{Action, Cluster};
use crate::model::amount::{bytes, counted};
use crate::model::text::printable;
use crate::model::{HostInspection, HostProcess, Inspection, Node, NodeState, Text, Timestamp};
use crate::reconcile::TpuStatus;

/// Maximum number of processes listed; a host may run hundreds of idle ones.
const MAX_PROCESSES: usize = 40;

/// The lines of the page.
pub fn lines(node: &Node, cluster: &Cluster, details: &Details, context: &CellContext<'_>) -> Lines {
    let mut lines = describe::node(node, cluster, |hint| context.hint(hint), context.now);
    // Labels are numerous and rarely what the page is opened for: they come last.
    let at = lines.iter().position(|(label, _)| label == "labels").unwrap_or(lines.len());
    let labels = lines.split_off(at);
    lines.extend(at_google(node, cluster));
    match &*details.inspected {
        Inspected::No => {}
        Inspected::Waiting(_) => lines.push(("processes".to_owned(), "querying Ray...".to_owned())),
        Inspected::Answered(_, at, answer) => {
            lines.push(("updated".to_owned(), ago(*at, context.now)));
            match &**answer {
                Err(why) => lines.push(("processes".to_owned(), format!("? ({})", printable(why)))),
                Ok(Inspection::Host(host)) => sections(&mut lines, (node, host), cluster, context),
                Ok(Inspection::Job(_)) => {}
            }
        }
    }
    if !matches!(*details.inspected, Inspected::No) && !labels.is_empty() {
        lines.push((String::new(), String::new()));
    }
    lines.extend(labels);
    lines
}

/// What Google reports about the slice of the host. A slice with all its hosts is alive, as in the slices pane.
fn at_google(node: &Node, cluster: &Cluster) -> Option<(String, String)> {
    let slice = node.slice()?;
    let row = cluster.tpu(slice)?;
    let note = row.note.as_ref().map(|note| format!(", {note}")).unwrap_or_default();
    let status =
        if row.status == TpuStatus::Registered { NodeState::Alive.label() } else { row.status.label() };
    Some(("slice".to_owned(), format!("{slice}, {status}{note}")))
}

fn sections(
    lines: &mut Lines,
    (node, host): (&Node, &HostInspection),
    cluster: &Cluster,
    context: &CellContext<'_>,
) {
    if !host.chips.is_empty() {
        heading(lines, "Chips");
        lines.extend(host.chips.iter().map(|chip| (chip.number.to_string(), figures(chip))));
    } else if node.resources.get("TPU").is_some_and(|r| r.total > 0.0) {
        heading(lines, "Chips");
        let key = context.keymap.key_of(Action::Chips);
        lines.push((
            String::new(),
            format!("not visible to Ray; press {key} to read them from libtpu on the host over SSH"),
        ));
    }
    let idle = host.processes.iter().filter(|p| is_idle(p)).count();
    heading(lines, "Processes");
    let busy = host.processes.iter().filter(|p| !is_idle(p));
    for process in busy.take(MAX_PROCESSES) {
        lines.push((process.pid.to_string(), process_text(process, cluster, context.now)));
    }
    let more = (host.processes.len() - idle).saturating_sub(MAX_PROCESSES);
    if more > 0 {
        lines.push((" ".to_owned(), format!("and {more} more")));
    }
    if idle > 0 {
        lines.push(("idle".to_owned(), format!("{} without a task", counted(idle, "worker"))));
    }
    heading(lines, "Log files");
    match &host.logs {
        Err(why) => lines.push(("not listed".to_owned(), printable(why).into_owned())),
        Ok(files) => {
            let count: usize = files.iter().map(|(_, names)| names.len()).sum();
            let key = context.keymap.key_of(Action::Open);
            lines.push((
                String::new(),
                format!("{}; press {key} to list and open them", counted(count, "file")),
            ));
            for (category, names) in files.iter().filter(|(_, names)| !names.is_empty()) {
                list(lines, &labels::log_category(category), [names_in_a_line(names)]);
            }
        }
    }
}

/// Whether it is a worker without a task.
fn is_idle(process: &HostProcess) -> bool {
    process.title.raw() == "ray::IDLE"
}

/// Whether it is the actor that runs a job's entrypoint. It belongs to a driver of Ray's own, which is never listed.
fn is_supervisor(process: &HostProcess) -> bool {
    process.title.raw().starts_with("ray::JobSupervisor")
}

/// `ray::train_step  1.3 GB  98% CPU  3h 02m  worker of train-8b (running, alice)`.
fn process_text(process: &HostProcess, cluster: &Cluster, now: Timestamp) -> String {
    let memory = process.memory.map(|n| bytes(n as f64));
    let cpu = process.cpu_percent.map(|cpu| format!("{cpu:.0}% CPU"));
    let age = process.started.map(|at| crate::model::time::brief(at.age(now)));
    let serves = process.job.as_ref().map(|driver| {
        let job = cluster.snapshot.jobs.iter().find(|job| job.driver.as_ref() == Some(driver));
        match job {
            Some(job) => {
                let status = cluster.vitals.status(job).label();
                format!("worker of {} ({status}, {})", job.key, job.owner_label())
            }
            None if is_supervisor(process) => "runs the entrypoint of a job".to_owned(),
            None => format!(
                "worker of driver {driver}, which is not in the list of jobs: it has ended, is Ray's own, or is new"
            ),
        }
    });
    let parts = [Some(process.title.to_string()), memory, cpu, age, serves];
    parts.into_iter().flatten().collect::<Vec<_>>().join("  ")
}

/// The first names, and the number of the others.
fn names_in_a_line(names: &[Text]) -> String {
    const MAX_NAMES: usize = 3;
    let named: Vec<String> = names.iter().take(MAX_NAMES).map(ToString::to_string).collect();
    let more = names.len().saturating_sub(MAX_NAMES);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", named.join(", "))
}
