//! `marin-tui chips`: the activity of each TPU chip and GPU of a cluster, and which of them are outliers.

use super::reach::{Progress, Reach};
use super::{columns, output};
use crate::model::amount::{bytes, counted};
use crate::model::text::printable;
use crate::model::{Chips, Fix, HostChips, Node, Problem, ProblemKind, Target, Text, Timestamp};
use crate::operation::ChipReader;
use clap::Args;
use serde_json::{Value, json};
use std::process::ExitCode;

pub(super) const EXAMPLES: &str = "\
Examples:
  marin-tui -c us-central2 chips                       duty cycle and memory of all chips
  marin-tui -c us-central2 chips ray-worker-manual-7   of one slice
  marin-tui -c us-central2 chips 10.128.0.7            of one host: its address, node id or name
  marin-tui -c us-central2 chips --json | jq -r '.[] | select(.behind) | .address'

GPU metrics come from Ray. On TPU VMs, metrics are read over SSH, at most 8 hosts at a time, from libtpu on port 8431 \
of the host, which is open while a program uses the chips. A `!` marks an outlier: a chip whose duty cycle is far from \
that of most chips in its slice. A host lags if it is still at an earlier program launch than most hosts of its \
slice.

Exit codes: 0 the chips of all hosts were read, 1 some could not be read (the message gives the reason).";

/// Options of `chips`.
#[derive(Debug, Args)]
pub struct ChipArguments {
    /// Slices, node types, or hosts: addresses, names or node ids [default: all with chips]
    #[arg(value_name = "SLICE|HOST")]
    selectors: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints the chips.
pub(super) fn run(arguments: &ChipArguments, reach: &Reach) -> anyhow::Result<ExitCode> {
    let chips = Reach::block_on(async {
        let progress = Progress::new();
        let session = reach.connect(&progress).await?;
        let chips = read(arguments, reach, &session, &progress).await;
        session.close().await;
        chips.map_err(|problem| reach.error(&problem))
    })?;
    let outliers = chips.outliers();
    if arguments.json {
        let hosts = chips.hosts.iter().enumerate();
        output::json(&hosts.map(|(index, host)| for_scripts(host, index, &outliers)).collect::<Vec<_>>())?;
    } else {
        let rows: Vec<Vec<String>> =
            chips.hosts.iter().enumerate().map(|(index, host)| row(host, index, &outliers)).collect();
        let titles = ["SLICE", "HOST", "USED", "DUTY %", "MEMORY", "NOTE"];
        columns::print(&mut output::stdout(), &titles, &rows)?;
    }
    let unread = chips.hosts.iter().filter(|host| host.read.is_err()).count();
    if unread == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("the chips of {} could not be read", counted(unread, "host"));
    Ok(ExitCode::FAILURE)
}

async fn read(
    arguments: &ChipArguments,
    reach: &Reach,
    session: &crate::supervisor::Session,
    progress: &Progress,
) -> Result<Chips, Problem> {
    let channel = session.connection().channel().await?;
    let reader = ChipReader {
        spec: &reach.spec,
        options: &reach.options,
        client: &channel.client,
        through: channel.login.as_ref(),
    };
    let is = |node: &Node, selector: &String| {
        let own = [&node.address, &node.name, &node.hostname, &node.node_type].map(Some);
        own.into_iter().chain([node.slice()]).flatten().any(|name: &Text| name.raw() == selector)
            || node.id.to_string() == *selector
    };
    let wanted = |node: &Node| {
        arguments.selectors.is_empty() || arguments.selectors.iter().any(|selector| is(node, selector))
    };
    let hosts = reader.hosts(wanted).await?;
    if let Some(unknown) =
        arguments.selectors.iter().find(|selector| !hosts.iter().any(|node| is(node, selector)))
    {
        let what = format!("no live node with chips belongs to `{}`", printable(unknown));
        let list = Target::of(&reach.spec.name).line("list-nodes --slices");
        let hint = Fix::command("list slices, node types and hosts", list);
        return Err(Problem::new(ProblemKind::Other, what, hint, Timestamp::now()));
    }
    progress.show(format!("reading the chips of {}", counted(hosts.len(), "host")));
    Ok(reader.read(&hosts).await)
}

fn row(host: &HostChips, index: usize, outliers: &[(usize, u32)]) -> Vec<String> {
    let duty = host.chips().iter().map(|chip| {
        let mark = if outliers.contains(&(index, chip.number)) { "!" } else { "" };
        chip.duty_percent.map_or_else(|| "?".to_owned(), |duty| format!("{duty:.0}{mark}"))
    });
    let used = host.used.map_or_else(|| "?".to_owned(), |used| used.to_string());
    vec![
        host.group.to_string(),
        host.address.to_string(),
        format!("{used}/{}", host.expected),
        or_dash(duty.collect::<Vec<_>>().join(" ")),
        or_dash(
            host.memory()
                .map(|(u, t)| format!("{}/{}", bytes(u as f64), bytes(t as f64)))
                .unwrap_or_default(),
        ),
        or_dash(host.note()),
    ]
}

fn or_dash(text: String) -> String {
    if text.is_empty() { "-".to_owned() } else { text }
}

fn for_scripts(host: &HostChips, index: usize, outliers: &[(usize, u32)]) -> Value {
    let read = host.read.as_ref().ok();
    let chip = |chip: &crate::model::ChipUse| {
        json!({
            "number": chip.number, "name": (!chip.name.is_empty()).then(|| chip.name.raw()),
            "duty_percent": chip.duty_percent, "memory_used": chip.memory.map(|(used, _)| used),
            "memory_total": chip.memory.map(|(_, total)| total),
            "outlier": outliers.contains(&(index, chip.number)),
        })
    };
    json!({
        "node_id": host.node.to_string(), "address": host.address.raw(), "group": host.group.raw(),
        "host_number": host.worker,
        "expected": host.expected, "used": host.used, "source": read.map(|read| read.source.label()),
        "chips": host.chips().iter().map(chip).collect::<Vec<_>>(), "launches": host.run(), "behind": host.is_behind,
        "error": read.and_then(|read| read.error.as_ref()).map(Text::raw), "reason": host.read.as_ref().err(),
    })
}
