//! The chips of a slice, a host or a job's hosts: a grid that makes outliers visible, and the figures.

use crate::app::action::target::{ChipsOf, Target};
use crate::app::pages::details::{Details, Inspected};
use crate::app::text::describe::{Lines, WARNS, ago, heading, of_problem};
use crate::app::text::labels;
use crate::app::view::View;
use crate::app::{App, Cluster, Effect, Fleet};
use crate::model::amount::{bytes, counted};
use crate::model::{
    ChipUse, Chips, Hint, HostChips, Inspection, JobKey, Node, NodeId, Problem, Timestamp, WorkerState,
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
/// Maximum number of hosts that are named next to a reason that they share.
const MAX_NAMES: usize = 6;

impl App {
    /// The target hosts: those of the slice of the selected node or TPU, or of the job on the screen.
    pub(in crate::app) fn target_chips(&self) -> Option<(usize, Arc<ChipsOf>)> {
        let of = |what: String, nodes: Vec<NodeId>| Arc::new(ChipsOf { what, nodes: nodes.into() });
        let target = self.target()?;
        let cluster_index = target.cluster_index()?;
        let cluster = self.fleet.clusters.get(cluster_index)?;
        let chips = match target {
            Target::Chips(_, chips) => return Some((cluster_index, chips)),
            Target::Node(_, id) => {
                let node = cluster.node(&id)?;
                match node.slice() {
                    Some(slice) => of(slice.to_string(), of_slice(cluster, slice.raw())),
                    None if has_chips(node) => of(cluster.node_name(node).to_string(), vec![id]),
                    None => return None,
                }
            }
            Target::Hosts(_, key) => {
                let alive = cluster.alive_of(&key).into_iter();
                let has_any = |id: &NodeId| cluster.node(id).is_some_and(has_chips);
                of(labels::hosts(&key), alive.filter(has_any).collect())
            }
            Target::Tpu(_, name) => of(name.to_string(), of_slice(cluster, name.raw())),
            Target::Job(_, key) => of(key.to_string(), hosts_of_job(cluster, &key, self.stack.details())),
            Target::Cluster(_) | Target::Stacks(..) | Target::Broken(_) | Target::Messages => return None,
        };
        (!chips.nodes.is_empty()).then_some((cluster_index, chips))
    }

    /// Opens the page of the target's chips and reads them; if it is already open, reads them again.
    pub(in crate::app) fn take_chips(&mut self, now: Timestamp) -> Vec<Effect> {
        let Some((cluster_index, chips)) = self.target_chips() else {
            self.toasts.answer("no live host with chips here", now);
            return Vec::new();
        };
        let target = Target::Chips(cluster_index, Arc::clone(&chips));
        let mut effects = self.open_page(View::Details(Details::of(target)));
        effects.extend(self.stack.details_mut().and_then(|page| page.ask_for_chips(&self.fleet, now)));
        effects
    }

    /// Requests a read of the chips of the page on the screen if the shown data are old.
    pub(in crate::app) fn read_chips(&mut self, now: Timestamp) -> Option<Effect> {
        if self.is_frozen() {
            return None;
        }
        let page = self.stack.details_mut()?;
        page.next_chips(now).filter(Duration::is_zero)?;
        page.ask_for_chips(&self.fleet, now)
    }
}

impl Details {
    /// Requests a read of the page's chips.
    fn ask_for_chips(&mut self, fleet: &Fleet, now: Timestamp) -> Option<Effect> {
        let Target::Chips(cluster_index, chips) = &self.target else { return None };
        self.chips_requested = Some(now);
        Some(Effect::Chips(fleet.clusters[*cluster_index].name().clone(), chips.nodes.to_vec()))
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
        let is_it = matches!(&self.target, Target::Chips(of, chips) if *of == cluster_index && *chips.nodes == *nodes);
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

/// The alive hosts with chips on which a job runs, from its page or from its vitals.
fn hosts_of_job(cluster: &Cluster, job: &JobKey, page: Option<&Details>) -> Vec<NodeId> {
    let vitals = cluster.vitals.jobs.get(job).map(|vitals| &vitals.nodes);
    let hosts = page.and_then(Details::running_hosts).or_else(|| Some(vitals?.iter().copied().collect()));
    let hosts = hosts.unwrap_or_default().into_iter();
    hosts.filter(|id| cluster.node(id).is_some_and(has_chips)).collect()
}

fn has_chips(node: &Node) -> bool {
    let has = |name: &str| node.resources.get(name).is_some_and(|r| r.total >= 1.0);
    node.state.is_alive() && (has("TPU") || has("GPU"))
}

fn of_slice(cluster: &Cluster, slice: &str) -> Vec<NodeId> {
    let is_of = |node: &&Node| node.slice().is_some_and(|name| name.raw() == slice);
    cluster.snapshot.nodes.iter().filter(is_of).filter(|node| has_chips(node)).map(|node| node.id).collect()
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
pub fn lines(
    of: &ChipsOf,
    result: Option<&Result<Chips, Problem>>,
    words: impl Fn(&Hint) -> String,
    now: Timestamp,
) -> Lines {
    let chips = match result {
        None => {
            let hosts = counted(of.nodes.len(), "host");
            return vec![(String::new(), format!("reading the chips of {hosts}..."))];
        }
        Some(Err(problem)) => return of_problem(problem, words),
        Some(Ok(chips)) => chips,
    };
    let outliers = chips.outliers();
    let mut lines = vec![("read".to_owned(), ago(chips.at, now))];
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
fn grid(lines: &mut Lines, hosts: &[(usize, &HostChips)], outliers: &BTreeSet<(usize, u32)>) {
    let digit = |chip: &ChipUse| {
        let tens = chip.duty_percent.map(|duty| (duty / 10.0).clamp(0.0, 9.0) as u32);
        tens.and_then(|tens| char::from_digit(tens, 10)).unwrap_or('?')
    };
    let cell = |(index, host): &(usize, &HostChips)| {
        let chips: String = host.chips().iter().map(digit).collect();
        let chips = if chips.is_empty() { "?".repeat(host.expected.clamp(1, 8) as usize) } else { chips };
        let differs = host.is_behind || outliers.range((*index, 0)..=(*index, u32::MAX)).next().is_some();
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
fn remarks(lines: &mut Lines, hosts: &[(usize, &HostChips)], outliers: &BTreeSet<(usize, u32)>) {
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
