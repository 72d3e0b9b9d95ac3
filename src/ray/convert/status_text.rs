//! The autoscaler's report as text (`GET /api/cluster_status?format=1`): over HTTP the only source under v2.
//!
//! Its header has the time of the request, not of the report, so the age of the report is unknown. Unknown lines and
//! headings are skipped.

use super::{Types, add, in_order};
use crate::model::{
    Autoscaler, AutoscalerVersion, Demand, DemandKind, LaunchFailure, NodeId, PendingNode, Text, Timestamp,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// Seconds of a day.
const DAY: u64 = 86_400;

/// Parses the text of autoscaler v2, received at `now`. `None` when it is not a report (nothing has reported yet).
pub fn read(text: &str, now: Timestamp) -> Option<Autoscaler> {
    let (_, header) = text.split_once("Autoscaler status:")?;
    let printed = header.split_whitespace().nth(1).and_then(time_of_day);
    let mut out = Autoscaler { version: AutoscalerVersion::V2, ..Autoscaler::default() };
    let mut types = Types::default();
    let mut section = "";
    for line in text.lines() {
        let Some(entry) = line.strip_prefix(' ').map(str::trim).filter(|e| !e.is_empty()) else {
            section = line.trim_end().trim_end_matches(':');
            continue;
        };
        match section {
            "Active" => types_of(entry, |name, n| add(&mut types.of(name).active, n)),
            "Idle" => types_of(entry, |name, n| add(&mut types.of(name).idle, n)),
            "Pending" => match pending(entry) {
                Some(Coming::Launching(name, n)) => add(&mut types.of(name).launching, n),
                Some(Coming::Node(node)) => {
                    types.of(node.node_type.raw()).pending += 1;
                    out.pending.push(node);
                }
                None => {}
            },
            "Recent failures" => out.failures.extend(failure(entry, printed, now)),
            "From request_resources" | "Pending Demands" | "Total Constraints" | "Total Demands" => {
                out.demands.extend(demand(entry));
            }
            _ => {}
        }
    }
    last_first(&mut out.failures);
    for failure in &out.failures {
        add(&mut types.of(failure.node_type.raw()).failed, failure.count);
    }
    out.types = types.finish();
    Some(in_order(out))
}

/// `2 tpu_worker`.
fn types_of(entry: &str, mut count: impl FnMut(&str, u32)) {
    // Without an autoscaler Ray reports each node as its own type, `node_<id>`.
    let stand_in = |name: &str| name.strip_prefix("node_").is_some_and(|id| NodeId::from_hex(id).is_some());
    if let Some((n, name)) = entry.split_once(' ')
        && let Ok(n) = n.parse()
        && !stand_in(name)
    {
        count(name, n);
    }
}

enum Coming<'a> {
    Launching(&'a str, u32),
    Node(PendingNode),
}

/// `tpu_worker, 2 launching`, or `10.9.0.12: tpu_worker, setting-up`.
fn pending(entry: &str) -> Option<Coming<'_>> {
    let (name, rest) = entry.split_once(',')?;
    let rest = rest.trim();
    if let Some(n) = rest.strip_suffix(" launching").and_then(|n| n.parse().ok()) {
        return Some(Coming::Launching(name, n));
    }
    let (address, node_type) = name.split_once(": ")?;
    let [node_type, address, status] = [node_type, address, rest].map(Text::from);
    Some(Coming::Node(PendingNode { node_type, address, status }))
}

/// `tpu_noquota: LaunchFailed (latest_attempt: 02:55:39)`. `None` for `NodeTerminated`, which is any dead node that the
/// GCS still lists.
///
/// v2 lists a failed launch until the autoscaler is restarted, so its age matters. The time is that of the request,
/// which may fail minutes later (`request_ts_s` in Ray's `v2/utils.py`). It has no date and is local to the head;
/// compared with the time in the header, it shows the age, except for whole days ([`last_first`]).
fn failure(entry: &str, printed: Option<u64>, now: Timestamp) -> Option<LaunchFailure> {
    /// The launch may be requested, and fail, between the time in the header and the response.
    const MAX_LEAD: u64 = 60;
    let (node_type, reason) = entry.split_once(": ")?;
    if reason.starts_with("NodeTerminated") {
        return None;
    }
    let attempt =
        reason.split_once("latest_attempt: ").and_then(|(_, at)| time_of_day(at.split(')').next()?));
    let age = printed.zip(attempt).map(|(printed, attempt)| (printed + DAY - attempt) % DAY);
    let age = age.map(|age| if age > DAY - MAX_LEAD { 0 } else { age });
    let at = age.map(|age| now.minus(Duration::from_secs(age)));
    let [node_type, reason] = [node_type, reason].map(Text::from);
    Some(LaunchFailure { node_type, count: 1, reason, at, from_text: true, day_unknown: at.is_some() })
}

/// Ray lists the launch that was requested last first, so one with a later time of day than the one before it was
/// requested on an earlier day.
fn last_first(failures: &mut [LaunchFailure]) {
    let mut later: Option<Timestamp> = None;
    for failure in failures {
        if let (Some(at), Some(later)) = (failure.at, later) {
            let days = later.age(at).as_secs().div_ceil(DAY);
            failure.at = Some(at.minus(Duration::from_secs(days * DAY)));
        }
        later = failure.at.or(later);
    }
}

/// The seconds since midnight of `02:56:03.615035` or `02:55:39`.
fn time_of_day(text: &str) -> Option<u64> {
    let mut parts = text.splitn(3, ':');
    let mut part = || parts.next()?.split('.').next()?.parse::<u8>().ok().map(u64::from);
    let seconds = part()? * 3600 + part()? * 60 + part()?;
    (seconds < DAY).then_some(seconds)
}

/// `{'CPU': 1.0}: 3+ pending tasks/actors`, `{'TPU': 8.0} * 2 (STRICT_SPREAD): 1+ pending placement groups`.
fn demand(entry: &str) -> Option<Demand> {
    let mut all: BTreeMap<String, f64> = BTreeMap::new();
    let mut rest = entry;
    while let Some(inside) = rest.strip_prefix('{') {
        let mut bundle = Vec::new();
        rest = shape(inside, &mut bundle)?;
        let mut times = 1.0;
        if let Some(tail) = rest.strip_prefix(" * ") {
            let digits = tail.bytes().take_while(u8::is_ascii_digit).count();
            times = tail[..digits].parse().unwrap_or(1.0);
            rest = &tail[digits..];
        }
        for (name, amount) in bundle {
            *all.entry(name).or_default() += amount * times;
        }
        rest = rest.strip_prefix(", ").unwrap_or(rest);
    }
    let (strategy, tail) = rest.split_once(": ")?;
    let digits = tail.bytes().take_while(u8::is_ascii_digit).count();
    let kind = match &tail[digits..] {
        what if what.contains("placement group") => {
            DemandKind::Group(Text::from(strategy.trim_matches([' ', '(', ')'])))
        }
        what if what.contains("request_resources") => DemandKind::Request,
        _ => DemandKind::Task,
    };
    let shape = all.into_iter().map(|(name, n)| (Text::from(name), n)).collect();
    Some(Demand { shape, count: tail[..digits].parse().ok()?, kind, infeasible: false })
}

/// Parses the inside of a Python dict of names and numbers; returns the text after the closing brace.
fn shape<'a>(mut rest: &'a str, bundle: &mut Vec<(String, f64)>) -> Option<&'a str> {
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        if let Some(after) = rest.strip_prefix('}') {
            return Some(after);
        }
        let quote = rest.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
        let (name, after) = rest[1..].split_once(quote)?;
        let after = after.strip_prefix(':')?.trim_start();
        let end = after.find([',', '}'])?;
        bundle.push((name.to_owned(), after[..end].trim().parse().ok()?));
        rest = &after[end..];
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{VERSIONS, body};
    use super::*;
    use proptest::prelude::*;

    const NOW: Timestamp = Timestamp::from_millis(1_795_000_000_000);

    fn text(version: &str, name: &str) -> String {
        let response: serde_json::Value = serde_json::from_slice(&body(version, name)).unwrap();
        response["data"]["clusterStatus"].as_str().unwrap().to_owned()
    }

    #[test]
    fn the_recorded_report_of_v2_is_read() {
        for version in VERSIONS {
            let report = read(&text(version, "v2_busy_cluster_status_format1"), NOW).unwrap();
            let of = |name: &str| report.types.iter().find(|t| t.name.raw() == name).unwrap().clone();
            assert_eq!(of("tpu_noquota").launching, 2, "{version}");
            assert_eq!(of("ray.head.default").active, 1);
            assert_eq!(of("tpu_worker").pending as usize, report.pending.len());
            assert!(report.failures[0].reason.raw().starts_with("LaunchFailed"));
            assert!(report.failures[0].at.is_some_and(|at| at.age(NOW) < Duration::from_secs(60)));
            assert_eq!(report.reported, None, "its header has the time of the request");
            let group = report.demands.iter().find(|d| matches!(d.kind, DemandKind::Group(_))).unwrap();
            assert_eq!(group.kind, DemandKind::Group("STRICT_SPREAD".into()));
            assert_eq!(group.shape, [("CPU".into(), 2.0), ("TPU".into(), 16.0)]);
            assert!(report.demands.iter().any(|d| d.kind == DemandKind::Request && d.count == 2));
        }
    }

    #[test]
    fn failed_launches_have_an_age_and_lost_nodes_are_none() {
        let ages = |time: &str| {
            let report = read(
                &format!(
                    "==== Autoscaler status: 2026-11-21 {time} ====\nRecent failures:\n \
                     b: LaunchFailed (latest_attempt: 00:01:00)\n a: LaunchFailed (latest_attempt: 23:59:30)\n \
                     c: LaunchFailed (latest_attempt: 31:02:03)\n d: NodeTerminated (instance_id: i-1)\n"
                ),
                NOW,
            );
            let failures = report.unwrap().failures;
            assert!(failures.iter().all(|f| f.from_text && f.day_unknown == f.at.is_some()));
            let age = |name: &str| failures.iter().find(|f| f.node_type.raw() == name).map(|f| f.at);
            ["a", "b", "c", "d"].map(|name| age(name).map(|at| at.map(|at| at.age(NOW).as_secs())))
        };
        let expected = |a: u64, b: u64| [Some(Some(a)), Some(Some(b)), Some(None), None];
        assert_eq!(ages("00:01:00.5"), expected(90, 0));
        assert_eq!(ages("00:00:30"), expected(60, 0));
        assert_eq!(ages("23:59:40"), expected(86_410, 86_320), "the last one is listed first");
    }

    #[test]
    fn an_empty_report_is_not_a_report() {
        let none = "No cluster status. It may take a few seconds for the Ray internal services.";
        assert_eq!(read(none, NOW), None);
        let idle = read(
            "==== Autoscaler status: x ====\nActive:\n (no active nodes)\nPending:\n (no pending nodes)",
            NOW,
        );
        assert_eq!(idle.map(|r| (r.types.len(), r.pending.len())), Some((0, 0)));
    }

    #[test]
    fn counts_that_no_cluster_has_do_not_overflow() {
        let lines = " 4294967295 tpu\n 4294967295 tpu\n";
        let text = format!(
            "Autoscaler status:\nActive:\n{lines}Idle:\n{lines}Pending Demands:\n {{'CPU': 1}}: 18446744073709551615+ pending tasks\n"
        );
        let report = read(&text, NOW).unwrap();
        assert_eq!((report.types[0].active, report.types[0].idle), (1_000_000, 1_000_000));
        assert_eq!(report.demands[0].count, 1_000_000);
    }

    proptest! {
        #[test]
        fn no_line_makes_it_panic(line in "[ {}'\":,*+0-9a-zé()]{0,40}") {
            for heading in ["Active", "Pending", "Recent failures", "Pending Demands"] {
                let _ = read(&format!("Autoscaler status: 2026-11-21 {line}\n{heading}:\n {line}\n"), NOW);
            }
        }
    }
}
