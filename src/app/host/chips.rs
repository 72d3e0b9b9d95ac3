//! The chips of a slice, a host or a job's hosts: a grid that makes outliers visible, and the figures.

use crate::app::action::target::{ChipsOf, Target};
use crate::app::pages::details::{Details, Inspected};
use crate::app::text::describe::{Lines, WARNS, ago, heading, of_problem};
use crate::app::text::labels;
use crate::app::view::View;
use crate::app::{App, Cluster, Effect, Fleet};
use crate::model::amount::{bytes, counted};
use crate::model::{
    ChipUse, Chips, Hint, HostChips, Inspection, JobKey, Node, NodeId, Problem, Timestamp, Vitals,
    WorkerState,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Hosts per line of the grid: with four chips each they take 60 columns.
const HOSTS_PER_LINE: usize = 12;
/// Up to this number, hosts are listed one by one with their figures.
const MAX_LISTED_HOSTS: usize = 8;
/// Interval between two reads while the page is shown.
const READ_INTERVAL: Duration = Duration::from_secs(10);
/// A read without a result after this time is started again: each host that does not respond takes half a minute.
const READ_TIMEOUT: Duration = Duration::from_secs(120);
/// Text for a page whose slice, host or job no longer has a live host with chips.
const NO_HOSTS: &str =
    "no live host with chips now; the page keeps the last figures and checks again every 10 seconds";
/// Maximum number of hosts that are named next to a reason that they share.
const MAX_NAMES: usize = 6;

impl App {
    /// The page of the target's chips, those of the slice of the selected node or TPU, or of the job on the screen, and
    /// the hosts that they are on; `None` if there is no such host, and for a page of chips itself.
    pub(in crate::app) fn target_chips(&self) -> Option<(Target, Vec<NodeId>)> {
        let target = self.target()?;
        let cluster_index = target.cluster_index()?;
        let cluster = self.fleet.clusters.get(cluster_index)?;
        let chips = chips_of(target, cluster)?;
        let hosts = hosts_of(cluster, &chips.of, self.stack.details());
        (!hosts.is_empty()).then(|| (Target::Chips(cluster_index, Arc::new(chips)), hosts))
    }

    /// Whether the page of chips is on the screen.
    pub(in crate::app) fn shows_chips(&self) -> bool {
        matches!(self.stack.details().map(|page| &page.target), Some(Target::Chips(..)))
    }

    /// Opens the page of the target's chips and reads them; if it is already open, reads them again.
    pub(in crate::app) fn take_chips(&mut self, now: Timestamp) -> Vec<Effect> {
        let mut effects = Vec::new();
        if !self.shows_chips() {
            let Some((target, hosts)) = self.target_chips() else {
                self.toasts.answer("no live host with chips here", now);
                return effects;
            };
            effects = self.open_page(View::Details(Box::new(Details::of(target))));
            if let Some(page) = self.stack.details_mut() {
                page.set_chip_hosts(hosts);
                page.chips_since = Some(now);
            }
        }
        let read = self.stack.details_mut().and_then(|page| page.ask_for_chips(&self.fleet, now));
        if read.is_none() {
            self.toasts.answer(NO_HOSTS, now);
        }
        effects.extend(read);
        effects
    }

    /// Requests a read of the chips of the page on the screen if the shown data are old.
    pub(in crate::app) fn read_chips(&mut self, now: Timestamp) -> Option<Effect> {
        if self.is_frozen() {
            return None;
        }
        let page = self.stack.details_mut()?;
        page.next_chips(now).filter(Duration::is_zero)?;
        // The hosts may have changed.
        self.dirty = true;
        page.ask_for_chips(&self.fleet, now)
    }
}

impl Details {
    /// Requests a read of the page's chips, on the hosts of its slice, host or job as of now. Without such a host, the
    /// last figures stay.
    fn ask_for_chips(&mut self, fleet: &Fleet, now: Timestamp) -> Option<Effect> {
        let Target::Chips(cluster_index, chips) = &self.target else { return None };
        let cluster = fleet.clusters.get(*cluster_index)?;
        let hosts = self.chip_hosts_now(cluster, &chips.of);
        self.set_chip_hosts(hosts);
        if self.chip_hosts.is_empty() {
            (self.chips_requested, self.chips_read) = (None, Some(now));
            return None;
        }
        self.chips_requested = Some(now);
        Some(Effect::Chips(cluster.name().clone(), self.chip_hosts.clone()))
    }

    /// The hosts of the page's slice, host or job as of now. A job keeps those for which the page was opened until
    /// newer vitals report others.
    fn chip_hosts_now(&self, cluster: &Cluster, of: &Target) -> Vec<NodeId> {
        if let Target::Job(_, key) = of
            && cluster.job(key).is_some_and(|job| !job.status.is_ended())
            && vitals_of(cluster, key).is_none_or(|vitals| Some(vitals.read) < self.chips_since)
        {
            return with_chips(cluster, self.chip_hosts.clone());
        }
        hosts_of(cluster, of, None)
    }

    /// Stores the hosts of the page. The figures of other hosts are dropped, because they may be another job's.
    fn set_chip_hosts(&mut self, hosts: Vec<NodeId>) {
        if !hosts.is_empty() && !self.chip_hosts.iter().any(|id| hosts.contains(id)) {
            self.chips = None;
        }
        self.chip_hosts = hosts;
    }

    /// Time until the page's chips are read again: [`READ_INTERVAL`] after the last result.
    pub(in crate::app) fn next_chips(&self, now: Timestamp) -> Option<Duration> {
        let Target::Chips(..) = &self.target else { return None };
        match (self.chips_requested, self.chips_read) {
            // A read that is in progress may be lost.
            (Some(requested), _) => Some(READ_TIMEOUT.saturating_sub(requested.age(now))),
            (None, Some(read)) => Some(READ_INTERVAL.saturating_sub(read.age(now))),
            (None, None) => None,
        }
    }

    /// Keeps the usage of the chips of these nodes, if it is the page of these chips. Returns whether it is.
    pub(in crate::app) fn take_chips(
        &mut self,
        cluster_index: usize,
        nodes: &[NodeId],
        result: &Arc<Result<Chips, Problem>>,
        now: Timestamp,
    ) -> bool {
        let is_it = matches!(&self.target, Target::Chips(of, _) if *of == cluster_index)
            && self.chip_hosts == nodes
            && !nodes.is_empty();
        if is_it {
            self.chips = Some(Arc::clone(result));
            (self.chips_requested, self.chips_read) = (None, Some(now));
        }
        is_it
    }

    /// The hosts on which the page's job runs, as Ray reported for the page.
    fn running_hosts(&self) -> Option<BTreeSet<NodeId>> {
        let Inspected::Answered(_, _, answer) = &*self.inspected else { return None };
        let Ok(Inspection::Job(job)) = &**answer else { return None };
        let workers = job.workers.as_deref().ok()?.iter();
        let running = workers.filter(|worker| worker.state == WorkerState::Running);
        Some(running.map(|worker| worker.node).collect())
    }
}

/// What the chips of a target belong to; `None` if the target has no hosts.
fn chips_of(target: Target, cluster: &Cluster) -> Option<ChipsOf> {
    let what = match &target {
        Target::Node(cluster_index, id) => {
            let node = cluster.node(id)?;
            if let Some(slice) = node.slice() {
                let of = Target::Tpu(*cluster_index, slice.clone());
                return Some(ChipsOf { what: slice.to_string(), of });
            }
            cluster.node_name(node).to_string()
        }
        Target::Hosts(_, key) => labels::hosts(key),
        Target::Tpu(_, name) => name.to_string(),
        Target::Job(_, key) => key.to_string(),
        Target::Cluster(_)
        | Target::Stacks(..)
        | Target::Chips(..)
        | Target::Broken(_)
        | Target::Messages => return None,
    };
    Some(ChipsOf { what, of: target })
}

/// The alive hosts with chips of a slice, a host or a job; those of a job from its page, else from its vitals.
fn hosts_of(cluster: &Cluster, of: &Target, page: Option<&Details>) -> Vec<NodeId> {
    let hosts = match of {
        Target::Node(_, id) => vec![*id],
        Target::Hosts(_, key) => cluster.alive_of(key),
        Target::Tpu(_, name) => of_slice(cluster, name.raw()),
        Target::Job(_, key) => {
            let running = page.and_then(Details::running_hosts).map(|hosts| hosts.into_iter().collect());
            running.or_else(|| Some(vitals_of(cluster, key)?.nodes.clone())).unwrap_or_default()
        }
        _ => Vec::new(),
    };
    with_chips(cluster, hosts)
}

/// The vitals of a job, while it runs.
fn vitals_of<'c>(cluster: &'c Cluster, job: &JobKey) -> Option<&'c Vitals> {
    cluster.vitals.of(cluster.job(job)?)
}

/// Those of the hosts that are alive and have chips.
fn with_chips(cluster: &Cluster, mut hosts: Vec<NodeId>) -> Vec<NodeId> {
    hosts.retain(|id| cluster.node(id).is_some_and(has_chips));
    hosts
}

fn has_chips(node: &Node) -> bool {
    let has = |name: &str| node.resources.get(name).is_some_and(|r| r.total >= 1.0);
    node.state.is_alive() && (has("TPU") || has("GPU"))
}

fn of_slice(cluster: &Cluster, slice: &str) -> Vec<NodeId> {
    let is_of = |node: &&Node| node.slice().is_some_and(|name| name.raw() == slice);
    cluster.snapshot.nodes.iter().filter(is_of).map(|node| node.id).collect()
}

/// `97%, 12.1 GB of 32.0 GB`.
pub fn figures(chip: &ChipUse) -> String {
    let duty =
        chip.duty_percent.map_or_else(|| "duty cycle unknown".to_owned(), |duty| format!("{duty:.0}%"));
    let memory = chip.memory.map(|(used, all)| format!(", {} of {}", bytes(used as f64), bytes(all as f64)));
    let name = if chip.name.is_empty() { String::new() } else { format!("  {}", chip.name) };
    format!("{duty}{}{name}", memory.unwrap_or_default())
}

/// The lines of the page; `words` converts hints to text.
pub fn lines(details: &Details, words: impl Fn(&Hint) -> String, now: Timestamp) -> Lines {
    let has_hosts = !details.chip_hosts.is_empty();
    let mut lines = Vec::new();
    if !has_hosts {
        lines.push(("hosts".to_owned(), format!("{WARNS}{NO_HOSTS}")));
    }
    let chips = match details.chips.as_deref() {
        None => {
            let hosts = counted(details.chip_hosts.len(), "host");
            lines.extend(has_hosts.then(|| (String::new(), format!("reading the chips of {hosts}..."))));
            return lines;
        }
        Some(Err(problem)) => {
            lines.extend(of_problem(problem, words));
            return lines;
        }
        Some(Ok(chips)) => chips,
    };
    let outliers = chips.outliers();
    lines.push(("read".to_owned(), ago(chips.at, now)));
    for (group, indices) in chips.groups() {
        let hosts: Vec<(usize, &HostChips)> = indices.iter().map(|p| (*p, &chips.hosts[*p])).collect();
        heading(&mut lines, &format!("{group}: {}", in_numbers(&hosts)));
        if hosts.iter().any(|(_, host)| !host.chips().is_empty()) {
            grid(&mut lines, &hosts, &outliers);
        }
        remarks(&mut lines, &hosts, &outliers);
        if hosts.len() <= MAX_LISTED_HOSTS {
            for (_, host) in &hosts {
                let chips = host.chips().iter().map(|chip| format!("{}  {}", chip.number, figures(chip)));
                crate::app::text::describe::list(&mut lines, &host.address.to_string(), chips);
            }
        }
    }
    lines
}

/// `256 hosts, 1,024 chips, 95% busy, 62% of memory used`.
fn in_numbers(hosts: &[(usize, &HostChips)]) -> String {
    let chips = || hosts.iter().flat_map(|(_, host)| host.chips());
    let duties: Vec<f64> = chips().filter_map(|chip| chip.duty_percent).collect();
    let busy = (!duties.is_empty())
        .then(|| format!("{:.0}% busy", duties.iter().sum::<f64>() / duties.len() as f64));
    let (used, all) = chips()
        .filter_map(|chip| chip.memory)
        .fold((0.0, 0.0), |(used, all), (u, a)| (used + u as f64, all + a as f64));
    let memory = (all > 0.0).then(|| format!("{:.0}% of memory used", used * 100.0 / all));
    let count: u32 = hosts.iter().map(|(_, host)| host.expected).sum();
    let parts = [Some(counted(hosts.len(), "host")), Some(counted(count as usize, "chip")), busy, memory];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// One digit per chip: its duty cycle in tens of percent; `?` if it is unknown, and `!` after a host that is an
/// outlier.
fn grid(lines: &mut Lines, hosts: &[(usize, &HostChips)], outliers: &[(usize, u32)]) {
    let digit = |chip: &ChipUse| {
        let tens = chip.duty_percent.map(|duty| (duty / 10.0).clamp(0.0, 9.0) as u32);
        tens.and_then(|tens| char::from_digit(tens, 10)).unwrap_or('?')
    };
    let cell = |(index, host): &(usize, &HostChips)| {
        let chips: String = host.chips().iter().map(digit).collect();
        let chips = if chips.is_empty() { "?".repeat(host.expected.clamp(1, 8) as usize) } else { chips };
        let differs = host.is_behind || outliers.iter().any(|(host, _)| host == index);
        format!("{chips}{}", if differs { '!' } else { ' ' })
    };
    for (row, hosts) in hosts.chunks(HOSTS_PER_LINE).enumerate() {
        let text: String = hosts.iter().map(cell).collect();
        let mark = if text.contains('!') { WARNS } else { "  " };
        let first = row * HOSTS_PER_LINE;
        let label = match hosts.len() {
            1 => format!("host {first}"),
            n => format!("hosts {first}-{}", first + n - 1),
        };
        lines.push((label, format!("{mark}{}", text.trim_end())));
    }
    lines.push((
        String::new(),
        "one digit per chip: duty cycle in tens of percent (9 = 90% or more)".to_owned(),
    ));
}

/// Outliers, and hosts that could not be read with the reason.
fn remarks(lines: &mut Lines, hosts: &[(usize, &HostChips)], outliers: &[(usize, u32)]) {
    let mut silent: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (number, (index, host)) in hosts.iter().enumerate() {
        let differs = host.chips().iter().filter(|chip| outliers.contains(&(*index, chip.number)));
        let differs = differs.map(|chip| format!("chip {} at {}", chip.number, figures(chip)));
        let differs: Vec<String> = differs.collect();
        if !differs.is_empty() {
            let text = format!("{WARNS}{} (host {number}): {}", host.address, differs.join("; "));
            lines.push(("outliers".to_owned(), text));
        }
        match &host.read {
            Err(_) => silent.entry(host.note()).or_default().push(host.address.to_string()),
            Ok(_) if !host.note().is_empty() => {
                lines.push((
                    "host".to_owned(),
                    format!("{WARNS}{} (host {number}): {}", host.address, host.note()),
                ));
            }
            Ok(_) => {}
        }
    }
    for (why, addresses) in silent {
        let more = addresses.len().saturating_sub(MAX_NAMES);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let named: Vec<_> = addresses.iter().take(MAX_NAMES).map(String::as_str).collect();
        lines.push(("not read".to_owned(), format!("{}{more}: {why}", named.join(", "))));
    }
}
