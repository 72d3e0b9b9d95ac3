//! Every fault that a head or its connection may have, on a fleet: what is not struck stays as it is, and everything
//! recovers without a key.

use super::{Console, hung_dashboard};
use marin_tui::demo::{Fault, FaultRule, Member};
use marin_tui::model::{Link, News, Request};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// A fault, by the name that a person would give it, and who brings it about.
type Strike = (&'static str, fn(&Member));

fn troubled(member: &Member, path: &str, fault: Fault) {
    member.head.trouble(vec![FaultRule { path: path.into(), fault }]);
}

/// What heads did to the console in an hour of faults. Each lasts until [`Head::trouble`] is called with none.
const STRIKES: [Strike; 12] = [
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
    ("a dashboard that hangs", |m| m.head.trouble(hung_dashboard())),
    ("a GCS that hangs", |m| troubled(m, "/ray.rpc.", Fault::Stall)),
    ("answers after three seconds", |m| troubled(m, "", Fault::Latency(Duration::from_secs(3)))),
];

/// How the clusters of a fleet are shown.
#[derive(Default)]
struct Shown {
    /// Those of which everything answers.
    whole: BTreeSet<String>,
    /// Those whose state was read since this was cleared.
    read: BTreeSet<String>,
}

impl Shown {
    fn take(&mut self, name: &str, news: &News) {
        match news {
            News::Link(Link::Up { gcs: true, dashboard: None, .. }) => {
                self.whole.insert(name.to_owned());
            }
            News::Link(_) => {
                self.whole.remove(name);
            }
            News::Snapshot(_) => {
                self.read.insert(name.to_owned());
            }
            _ => {}
        }
    }

    fn is_well(&self, name: &str) -> bool {
        self.whole.contains(name) && self.read.contains(name)
    }
}

/// Every fault, on the head of the cluster on the screen alone: the other clusters stay as they are, and everything
/// recovers without a key. With `FLEET_FAULTS=all` also on half of the fleet and on all of it, at the default intervals.
#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_recovers_from_every_fault_by_itself() {
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
        .until("all are up", |name, news| {
            shown.take(name, news);
            all_well(&shown)
        })
        .await;
    for (fault, strike) in STRIKES {
        for struck in scopes {
            let (hit, spared) = names.split_at(*struck);
            let what = format!("{fault}, at {struck} of {}", names.len());
            let began = Instant::now();
            for member in &console.fleet.members()[..*struck] {
                strike(member);
            }
            // A slow answer and a lost connection may both be over before anything is seen of them.
            let is_brief = matches!(fault, "ssh lost" | "answers after three seconds");
            if !is_brief {
                console
                    .until(&format!("it is seen: {what}"), |name, news| {
                        shown.take(name, news);
                        !shown.whole.contains("c0")
                    })
                    .await;
            }
            assert!(spared.iter().all(|name| shown.whole.contains(name)), "{what}: {:?}", shown.whole);
            let seen = began.elapsed();
            for member in console.fleet.members() {
                member.head.trouble(Vec::new());
            }
            let over = Instant::now();
            shown.read.clear();
            console
                .until(&format!("the cluster on the screen is well again: {what}"), |name, news| {
                    shown.take(name, news);
                    shown.is_well("c0")
                })
                .await;
            let first = over.elapsed();
            console
                .until(&format!("all clusters are well again: {what}"), |name, news| {
                    shown.take(name, news);
                    assert!(
                        hit.iter().any(|n| n == name) || shown.whole.contains(name),
                        "{what}: {name}: {news:?}"
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
