//! Orders to the console's performer of operations, without a screen.

use crate::cloud_fixture::CloudFixture;
use marin_tui::app::{Effect, Event};
use marin_tui::model::{
    CancelledState, ClusterName, Confirmed, Consent, NewWorker, OperationEnd, OperationEvent, Order,
    Progress, Task, WorkerOffer, WorkerType,
};
use marin_tui::operation::Environment;
use marin_tui::tui::Performer;
use std::time::Duration;
use tokio::sync::mpsc;

/// The console's performer of operations, without a screen.
struct Console<'a> {
    fixture: &'a CloudFixture,
    performer: Performer,
}

impl CloudFixture {
    fn console(&self, read_only: bool) -> Console<'_> {
        let environment = Environment { read_only, ..self.environment() };
        Console { fixture: self, performer: self.performer(environment, &mpsc::channel(1).0) }
    }
}

impl Console<'_> {
    fn order(&mut self, order: Order) {
        let _runtime = self.fixture.runtime.enter();
        self.performer.perform(Effect::Operate(ClusterName::new("marin-a"), order));
    }

    /// Waits for the next event of this kind.
    fn wait_for_event<T>(&mut self, wanted: impl Fn(OperationEvent) -> Option<T>) -> T {
        let mut heard = Vec::new();
        let event = async {
            loop {
                let Event::Operation(_, event) = self.performer.done().await else { continue };
                heard.push(format!("{event:?}"));
                if let Some(found) = wanted(event) {
                    return found;
                }
            }
        };
        let event = async { tokio::time::timeout(Duration::from_secs(60), event).await };
        let found = self.fixture.runtime.block_on(event);
        found.unwrap_or_else(|_| panic!("timed out: {heard:#?}"))
    }

    fn offered(&mut self) -> WorkerOffer {
        self.order(Order::ListOffers);
        self.wait_for_event(|event| match event {
            OperationEvent::Offered(offer) => Some(offer.unwrap()),
            _ => None,
        })
    }

    fn refused(&mut self, order: Order) -> String {
        self.order(order);
        self.wait_for_event(|event| match event {
            OperationEvent::Refused(_, _, refusal) => {
                let problem = refusal.problem;
                Some(format!("{}; {}", problem.what, problem.hint))
            }
            _ => None,
        })
    }

    fn wait_for_output(&mut self, words: &str) {
        self.wait_for_event(|event| match event {
            OperationEvent::Progress(Progress::Output(line)) if line.contains(words) => Some(()),
            _ => None,
        });
    }

    fn finish(&mut self) -> OperationEnd {
        self.wait_for_event(|event| match event {
            OperationEvent::Ended(end) => Some(end),
            _ => None,
        })
    }
}

#[test]
fn the_console_adds_a_worker_cancels_the_wait_and_offers_the_same_again() {
    let mut fixture = CloudFixture::new();
    fixture.head();
    let mut console = fixture.console(false);
    let offer = console.offered();
    assert_eq!(offer.types, [WorkerType { name: "tpu_worker".into(), accelerator: "v4-8".into() }]);
    assert_eq!(offer.capacities, ["preemptible", "best-effort", "flex-start", "reserved"]);
    assert_eq!(offer.last, None);
    let wanted = |node_type: &str| NewWorker::Queued {
        node_type: node_type.into(),
        capacity: "best-effort".into(),
        names: vec!["by-console".into()],
    };
    let said = console.refused(Order::Preview(Task::AddWorker(wanted("v9-8"))));
    assert!(said.contains("available types: tpu_worker"), "{said}");

    let add = Task::AddWorker(wanted("v4-8"));
    let agreed = Consent { confirmed: Confirmed::Yes, ..Consent::default() };
    console.order(Order::Begin(add.clone(), agreed.clone()));
    console.wait_for_output("by-console: waiting");
    let busy = console.refused(Order::Begin(Task::Stop, agreed.clone()));
    assert!(busy.contains("add worker by-console (marin-a), started"), "{busy}");
    assert!(busy.contains("cancel it where it runs"), "{busy}");
    console.order(Order::Cancel);
    let OperationEnd::Cancelled(how) = console.finish() else { panic!("it was not cancelled") };
    assert_eq!(how, CancelledState::Requested);
    assert_eq!(console.offered().last, Some(wanted("v4-8")));
    console.order(Order::Begin(add, agreed.clone()));
    console.wait_for_output("already requested from Google");
    fixture.grant("by-console");
    assert_eq!(console.finish(), OperationEnd::Done);

    let remove = |worker: &str| Task::RemoveWorker { worker: worker.into(), drain: Some(60) };
    console.order(Order::Preview(remove("by-console")));
    let seen = console.wait_for_event(|event| match event {
        OperationEvent::Previewed(_, seen) => Some(seen),
        _ => None,
    });
    assert!(!seen.others().is_empty() && seen.problem.is_none(), "{seen:?}");
    let restorations = seen.jobs.iter().map(|j| j.restoration.text()).collect::<String>();
    assert!(restorations.contains("1 task (allowed to finish)"), "{restorations}");
    let mut locked = fixture.console(true);
    let said = locked.refused(Order::Begin(remove("by-console"), agreed));
    assert!(said.contains("remove-worker refused: read-only"), "{said}");
}
