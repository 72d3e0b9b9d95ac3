//! Every fault of a head or its connection, on a fleet: clusters without the fault stay as they are, and everything
//! recovers without user input.

use super::{Console, hung_dashboard};
use marin_tui::demo::{Fault, FaultRule, Member};
use marin_tui::model::{ClusterEvent, Link, Request};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// The name of a fault, and the function that causes it.
type Injection = (&'static str, fn(&Member));

fn troubled(member: &Member, path: &str, fault: Fault) {
    member.head.set_faults(vec![FaultRule { path: path.into(), fault }]);
}

/// Faults from the console's point of view. Each lasts until [`Head::trouble`] is called with no rules.
const INJECTIONS: [Injection; 12] = [
    ("errors", |m| troubled(m, "", Fault::Status(500))),
    ("a proxy's errors", |m| troubled(m, "", Fault::Status(502))),
    ("too busy", |m| troubled(m, "", Fault::Status(503))),
    ("pages of a proxy", |m| troubled(m, "", Fault::Html)),
    ("bodies that break off", |m| troubled(m, "", Fault::HalfBody)),
    ("connections closed without an answer", |m| troubled(m, "", Fault::HangUp)),
    ("no answer", |m| troubled(m, "", Fault::Stall)),
    ("no answer, connections lost meanwhile", |m| {
        troubled(m, "", Fault::Stall);
        m.drop_connections();
    }),
    ("ssh lost", |m| m.drop_connections()),
    ("a dashboard that hangs", |m| m.head.set_faults(hung_dashboard())),
    ("a GCS that hangs", |m| troubled(m, "/ray.rpc.", Fault::Stall)),
    ("answers after three seconds", |m| troubled(m, "", Fault::Latency(Duration::from_secs(3)))),
];

/// State of the clusters of a fleet as displayed.
#[derive(Default)]
struct Shown {
    /// Clusters whose GCS and dashboard both respond.
    whole: BTreeSet<String>,
    /// Clusters whose state was read since this set was cleared.
    read: BTreeSet<String>,
}

impl Shown {
    fn take(&mut self, name: &str, event: &ClusterEvent) {
        match event {
            ClusterEvent::Link(Link::Up { gcs: true, dashboard: None, .. }) => {
                self.whole.insert(name.to_owned());
            }
            ClusterEvent::Link(_) => {
                self.whole.remove(name);
            }
            ClusterEvent::Snapshot(_) => {
                self.read.insert(name.to_owned());
            }
            _ => {}
        }
    }

    fn is_well(&self, name: &str) -> bool {
        self.whole.contains(name) && self.read.contains(name)
    }
}

/// Every fault, only on the head of the cluster on the screen: the other clusters stay as they are, and everything
/// recovers without user input. With `FLEET_FAULTS=all` also on half of the fleet and on all of it, at the default
/// intervals.
#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_recovers_from_every_fault_without_user_input() {
    let is_whole = std::env::var("FLEET_FAULTS").is_ok_and(|faults| faults == "all");
    let scopes: &[usize] = if is_whole { &[1, 7, 14] } else { &[1] };
    let background = (!is_whole).then_some(Duration::from_secs(4));
    let names: Vec<String> = (0..14).map(|n| format!("c{n}")).collect();
    let listed: Vec<String> =
        names.iter().map(|name| format!("{{name: {name}, nodes: 8, jobs: 8}}")).collect();
    let plan = format!("clusters: [{}]", listed.join(", "));
    let mut console = Console::reading(&plan, background).await;
    console.ask("c0", Request::Focus(true));
    let mut shown = Shown::default();
    let all_well = |shown: &Shown| names.iter().all(|name| shown.is_well(name));
    console
        .until("all are up", |name, event| {
            shown.take(name, event);
            all_well(&shown)
        })
        .await;
    for (fault, inject) in INJECTIONS {
        for count in scopes {
            let (affected, unaffected) = names.split_at(*count);
            let what = format!("{fault}, at {count} of {}", names.len());
            let began = Instant::now();
            for member in &console.fleet.members()[..*count] {
                inject(member);
            }
            // A slow response or a lost connection may be over before the console shows it.
            let is_brief = matches!(fault, "ssh lost" | "answers after three seconds");
            if !is_brief {
                console
                    .until(&format!("it is seen: {what}"), |name, event| {
                        shown.take(name, event);
                        !shown.whole.contains("c0")
                    })
                    .await;
            }
            assert!(unaffected.iter().all(|name| shown.whole.contains(name)), "{what}: {:?}", shown.whole);
            let seen = began.elapsed();
            for member in console.fleet.members() {
                member.head.set_faults(Vec::new());
            }
            let over = Instant::now();
            shown.read.clear();
            console
                .until(&format!("the cluster on the screen is well again: {what}"), |name, event| {
                    shown.take(name, event);
                    shown.is_well("c0")
                })
                .await;
            let first = over.elapsed();
            console
                .until(&format!("all clusters are well again: {what}"), |name, event| {
                    shown.take(name, event);
                    assert!(
                        affected.iter().any(|n| n == name) || shown.whole.contains(name),
                        "{what}: {name}: {event:?}"
                    );
                    all_well(&shown)
                })
                .await;
            let all = over.elapsed();
            println!("{what}: seen after {seen:.1?}; well again: on the screen {first:.1?}, all {all:.1?}");
        }
    }
    console.end().await;
}
