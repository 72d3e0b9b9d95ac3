//! The table of issues: what each row opens, and the target of its keys.

use super::*;
use marin_tui::diagnose::FindingKind;

/// Opens the table of issues, with the row of this kind under the cursor.
fn at(app: &mut App, kind: FindingKind) {
    press(app, "E");
    press(app, &format!("/{}<enter>", kind.label()));
    assert_eq!(app.listing().unwrap().len(), 1, "{kind:?}");
}

#[test]
fn an_issue_of_a_job_opens_its_page_and_accepts_job_keys() {
    let mut app = shown();
    let key = app.clusters()[0].snapshot.jobs.iter().find(|j| j.key.raw() == "04000000").unwrap().key.clone();
    let ClusterEvent::Vitals(mut cluster_vitals) = held(key.raw(), []) else { panic!() };
    let vitals = Arc::make_mut(&mut cluster_vitals).jobs.get_mut(&key).unwrap();
    let sign = RunWarning { kind: WarningKind::Stalled, since: before(900), evidence: "at step 9".into() };
    Arc::make_mut(vitals).signs = vec![sign];
    send_update(&mut app, CLUSTER, ClusterEvent::Vitals(cluster_vitals));
    at(&mut app, FindingKind::Stalled);
    assert_eq!(app.target(), Some(Target::Job(0, key.clone())));
    press(&mut app, "<enter>");
    let View::Details(page) = app.view() else { panic!("{:?}", app.view()) };
    assert_eq!(page.target, Target::Job(0, key.clone()));
    assert_eq!(app.context(), Context::Job);
    press(&mut app, "<esc>");
    assert_eq!(app.context(), Context::Table, "back in the table of issues");
    press(&mut app, "w");
    assert_eq!(app.context(), Context::JobWorkers);
    press(&mut app, "<esc>");
    let footer = footer(&mut app);
    assert!(footer.contains("workers") && footer.contains("log"), "{footer}");
}

#[test]
fn warnings_of_vitals_that_are_too_old_are_not_shown() {
    let mark = |read: Timestamp| {
        let mut app = shown();
        let key = JobKey::Driver(JobId("04000000".into()));
        let ClusterEvent::Vitals(mut cluster_vitals) = held(key.raw(), []) else { panic!() };
        let vitals = Arc::make_mut(&mut cluster_vitals);
        vitals.read = Some(read);
        let sign =
            RunWarning { kind: WarningKind::Stalled, since: before(9000), evidence: "at step 9".into() };
        Arc::make_mut(vitals.jobs.get_mut(&key).unwrap()).signs = vec![sign];
        send_update(&mut app, CLUSTER, ClusterEvent::Vitals(cluster_vitals));
        let cluster = &app.clusters()[0];
        let job = cluster.snapshot.jobs.iter().find(|job| job.key == key).unwrap();
        let is_reported = cluster.finding(FindingKind::Stalled).is_some();
        (cluster.vitals.worst_warning(job, NOW).is_some(), is_reported)
    };
    assert_eq!(mark(before(60)), (true, true));
    assert_eq!(mark(before(1200)), (false, false));
}

#[test]
fn an_issue_of_a_slice_opens_its_hosts() {
    let mut app = shown();
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(sliced())));
    at(&mut app, FindingKind::SliceIncomplete);
    press(&mut app, "<enter>");
    let View::Slice(0, hosts) = app.view() else { panic!("{:?}", app.view()) };
    assert_eq!(hosts.name.raw(), "ray-m-worker-bb20-tpu");
    assert_eq!(app.listing().unwrap().len(), 8);
}

#[test]
fn an_issue_of_the_cluster_opens_the_pane_that_shows_it() {
    let mut app = shown();
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(sliced())));
    press(&mut app, "4");
    at(&mut app, FindingKind::NodesLost);
    press(&mut app, "<enter>");
    assert_eq!((app.view(), app.pane()), (&View::Cluster(0), Pane::Nodes));
}
