//! The contract with a real Ray of both versions: the client's functions work as documented.

use crate::head::{Head, TOKEN};
use marin_tui::logs::LineSplitter;
use marin_tui::model::{
    AutoscalerVersion, Demand, DemandKind, Inspection, Job, JobIds, JobKey, JobStatus, Line, Node, NodeState,
    Secret, Snapshot, Subject, SubmissionId, Wait, Work,
};
use marin_tui::ray::{
    Client, LogEvent, LogStream, Polled, Poller, RayError, Submission, cleaned, follow_whole, poll,
};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Write as _;
use tokio::sync::watch;

fn id(s: &str) -> SubmissionId {
    SubmissionId(s.into())
}

fn find<'a>(snapshot: &'a Snapshot, key: &str) -> Option<&'a Job> {
    snapshot.jobs.iter().map(AsRef::as_ref).find(|j| j.key.to_string() == key)
}

/// Follows the whole log of a job.
fn whole(client: &Client, job: &str) -> LogStream {
    let (clients, id) = (watch::channel(Some(client.clone())).1, id(job));
    LogStream::spawn(LineSplitter::ON_A_SCREEN, move |out| follow_whole(clients, id, out))
}

/// Follows a file from its last lines.
fn ending(client: &Client, file: Polled, lines: u32) -> LogStream {
    let clients = watch::channel(Some(client.clone())).1;
    LogStream::spawn(LineSplitter::ON_A_SCREEN, move |out| poll(clients, file, lines, None, out))
}

fn end_of(client: &Client, job: &str, lines: u32) -> LogStream {
    ending(client, Polled::Job(id(job)), lines)
}

/// Lines until the stream ends, and how it ended.
async fn drain(tail: &mut LogStream) -> (Vec<String>, LogEvent) {
    let mut lines = Vec::new();
    loop {
        match tail.next().await.unwrap() {
            LogEvent::Lines(more) => lines.extend(more.lines.iter().map(Line::to_string)),
            LogEvent::Interrupted(_) => {}
            end => return (lines, end),
        }
    }
}

/// Lines until one contains `text`.
async fn read_until(tail: &mut LogStream, text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    while !lines.iter().any(|l: &String| l.contains(text)) {
        match tail.next().await.unwrap() {
            LogEvent::Lines(more) => lines.extend(more.lines.iter().map(Line::to_string)),
            LogEvent::Interrupted(_) => {}
            end => panic!("{end:?} before {text:?} in {lines:#?}"),
        }
    }
    lines
}

async fn a_wrong_token_is_distinguished_from_a_missing_one(head: &Head) {
    for (token, refusal) in
        [(None, RayError::TokenMissing), (Some(Secret::new("wrong")), RayError::TokenRefused)]
    {
        let over_http = Client::new(head.dashboard_client().endpoint().clone(), token.clone()).unwrap();
        assert_eq!(over_http.wants_token().await, Ok(true));
        assert_eq!(over_http.version().await, Err(refusal.clone()));
        assert_eq!(Poller::new(over_http).refresh().await, Err(refusal.clone()));
        let both = Client::new(head.endpoint(), token).unwrap();
        let mut tail = whole(&both, "any");
        assert_eq!(tail.next().await, Some(LogEvent::Failed(refusal.clone())));
        assert_eq!(Poller::new(both).refresh().await, Err(refusal));
    }
}

async fn submit_the_jobs(head: &mut Head) {
    let driver = "python -c 'import ray, time; ray.init(); print(\"driver is up\", flush=True); \
         time.sleep(600)'";
    for job in [
        json!({"submission_id": "runs", "entrypoint": driver, "metadata": {"owner": "alice"},
               "runtime_env": {"env_vars": {"PASSWORD": "hunter2"}}}),
        json!({"submission_id": "ends", "entrypoint": "sleep 1; seq 1 3000; printf 'no line break'"}),
        json!({"submission_id": "fails", "entrypoint": "exit 3"}),
        json!({"submission_id": "waits", "entrypoint": "true", "entrypoint_num_cpus": 64}),
        json!({"submission_id": "not utf-8", "entrypoint": "sleep 1; seq 1 3000; printf 'caf\\351\\nend\\n'"}),
        json!({"submission_id": "short, not utf-8", "entrypoint": "sleep 1; printf 'caf\\351\\n'"}),
    ] {
        head.submit(job).await;
    }
    head.drive(
        "import time\n\
         @ray.remote(resources={'nonexistent_resource': 1})\n\
         def never(): pass\n\
         waiting = [never.remote() for _ in range(3)]\n\
         group = ray.util.placement_group([{'CPU': 7}] * 2, strategy='STRICT_SPREAD')\n\
         time.sleep(600)",
    );
}

/// A node without what only one of the channels reports.
fn common(node: &Node) -> Node {
    let mut node = node.clone();
    if node.state == NodeState::Idle {
        node.state = NodeState::Alive;
    }
    node.idle_ms = None;
    for resource in &mut node.resources.0 {
        // With v2, HTTP provides only a text, which rounds memory and omits the resources that name a node.
        let name = resource.name.raw();
        resource.used = resource.used.filter(|_| !name.contains("memory") && !name.starts_with("node:"));
    }
    node
}

/// The jobs without what only the GCS reports.
fn jobs(snapshot: &Snapshot) -> Vec<Job> {
    snapshot.jobs.iter().map(|job| Job { requested: None, ..Job::clone(job) }).collect()
}

/// Demand in a fixed order, without what only the GCS reports.
fn demands(snapshot: &Snapshot) -> Vec<Demand> {
    let mut demands = snapshot.autoscaler.demands.clone();
    for demand in &mut demands {
        demand.infeasible = false;
    }
    demands.sort_by(|x, y| x.shape.partial_cmp(&y.shape).unwrap());
    demands
}

async fn both_channels_agree(head: &Head, expected: AutoscalerVersion) {
    let mut direct = Poller::new(head.client());
    let mut dashboard = Poller::new(head.dashboard_client());
    let settled = |s: &Snapshot| {
        let ended = |key| find(s, key).is_some_and(|j| j.status.is_ended());
        let runs = find(s, "runs").is_some_and(|j| j.status == JobStatus::Running && j.driver.is_some());
        let by_hand = s.jobs.iter().any(|j| matches!(j.key, JobKey::Driver(_)));
        let demand = s.autoscaler.demands.len() == 3;
        runs && by_hand && demand && ["ends", "fails", "not utf-8", "short, not utf-8"].into_iter().all(ended)
    };
    let (a, b) = head
        .until("both channels have settled", async || {
            let (a, b) = (direct.refresh().await.unwrap(), dashboard.refresh().await.unwrap());
            let same = jobs(&a) == jobs(&b) && a.autoscaler.demands.len() == b.autoscaler.demands.len();
            (settled(&a) && settled(&b) && same).then_some((a, b))
        })
        .await;
    assert!(direct.over_gcs() && !dashboard.over_gcs());
    assert_eq!((&a.ray_version, &a.session), (&b.ray_version, &b.session));
    assert_eq!(a.ray_version.raw(), head.version());
    assert_eq!(
        a.nodes.iter().map(common).collect::<Vec<_>>(),
        b.nodes.iter().map(common).collect::<Vec<_>>()
    );
    assert!(a.nodes[0].is_head && a.nodes[0].resources.get("CPU").unwrap().used.is_some());
    assert_eq!(jobs(&a), jobs(&b));
    let requests = |s: &Snapshot, key| find(s, key).unwrap().requested.is_some();
    assert!(
        requests(&a, "runs") && !requests(&b, "runs"),
        "only the GCS reports what an entrypoint requests"
    );
    let demands = demands(&a);
    assert_eq!(demands, self::demands(&b));
    assert!(demands.iter().any(|d| d.kind == DemandKind::Group("STRICT_SPREAD".into())));
    assert_eq!((a.autoscaler.version, b.autoscaler.version), (expected, expected));
    assert_eq!((a.missing, b.missing), (Vec::new(), Vec::new()));
}

/// Two bundles of seven CPUs on different nodes cannot be placed, and tasks that request a resource of no node are
/// pending as well.
async fn a_pending_placement_group_is_what_its_driver_waits_for(head: &Head) {
    let snapshot = Poller::new(head.client()).refresh().await.unwrap();
    let by_hand = snapshot.jobs.iter().find(|job| matches!(job.key, JobKey::Driver(_))).unwrap();
    let held = head.client().holdings().await.unwrap().of(by_hand.driver.as_ref()).unwrap();
    let waits = |shape: &[(&str, f64)], count| {
        let is_it = |wait: &&Wait| {
            wait.count == count && shape.iter().all(|(name, n)| wait.shape.contains(&((*name).into(), *n)))
        };
        held.waits.iter().any(|wait| is_it(&wait))
    };
    assert!(waits(&[("CPU", 14.0)], 1) && waits(&[("nonexistent_resource", 1.0)], 3), "{held:?}");
    assert!(held.holds.is_empty() && held.tasks == 0, "{held:?}");
    let ids = JobIds { submission: None, driver: by_hand.driver.clone() };
    let Inspection::Job(inspected) =
        head.client().inspect(&Subject::Job { ids, through: None }).await.unwrap()
    else {
        panic!("inspection of a host")
    };
    let [group] = &inspected.groups.unwrap()[..] else { panic!("one group") };
    assert_eq!((group.state.raw(), group.bundles.len()), ("PENDING", 2), "{group:?}");
    assert!(!group.why.is_empty() && group.bundles.iter().all(|(_, node)| node.is_none()), "{group:?}");
}

async fn a_refresh_is_light_and_keeps_what_did_not_change(head: &Head) {
    let client = head.client();
    let mut poller = Poller::new(client.clone());
    let first = poller.refresh().await.unwrap();
    let before = client.meter().gcs.requests();
    let second = poller.refresh().await.unwrap();
    let requests = client.meter().gcs.requests() - before;
    assert!(requests <= 3, "{requests} requests");
    assert_eq!(client.meter().http.requests(), 0);
    for job in first.jobs.iter().filter(|j| j.status.is_ended()) {
        assert!(second.jobs.iter().any(|j| std::sync::Arc::ptr_eq(j, job)), "{} was fetched again", job.key);
    }
}

async fn a_job_has_its_details(head: &Head) {
    let detail = head.client().job(&id("runs")).await.unwrap();
    assert_eq!(detail.job.owner(), Some("alice"));
    let env = detail.runtime_env.raw();
    assert!(env.contains("PASSWORD") && !env.contains("hunter2"), "{env}");
    assert!(matches!(head.client().job(&id("no/such job")).await, Err(RayError::NotFound(_))));
    let work = head.client().work(&detail.job.ids()).await.unwrap();
    assert_eq!(work, Work::default(), "a driver that uses no ray");
}

async fn a_log_is_followed_to_its_end(head: &Head) {
    let client = head.client();
    let (lines, end) = drain(&mut whole(&client, "ends")).await;
    assert_eq!(end, LogEvent::Complete);
    let numbers: Vec<u32> = lines.iter().filter_map(|l| l.parse().ok()).collect();
    assert_eq!(numbers, (1..=3000).collect::<Vec<_>>());
    assert_eq!(lines.last().unwrap(), "no line break");
    let (lines, end) = drain(&mut end_of(&client, "ends", 5)).await;
    assert_eq!(
        (lines, end),
        (
            ["2996", "2997", "2998", "2999", "3000", "no line break"].map(str::to_owned).to_vec(),
            LogEvent::Complete
        )
    );

    let (lines, end) = drain(&mut whole(&client, "not utf-8")).await;
    assert_eq!(end, LogEvent::Complete);
    let numbers: Vec<u32> = lines.iter().filter_map(|l| l.parse().ok()).collect();
    assert_eq!(numbers, (1..=3000).collect::<Vec<_>>(), "neither lost nor repeated");
    assert_eq!(lines[lines.len() - 2..], ["caf\u{fffd}".to_owned(), "end".to_owned()]);

    // Here Ray closes the stream without reporting an error.
    let (lines, end) = drain(&mut whole(&client, "short, not utf-8")).await;
    assert_eq!((lines.last().map(String::as_str), end), (Some("caf\u{fffd}"), LogEvent::Complete));

    let (_, end) = drain(&mut end_of(&client, "nobody", 5)).await;
    assert!(matches!(end, LogEvent::Failed(RayError::NotFound(_))), "{end:?}");
    assert!(client.job_log(&id("ends")).await.unwrap().contains("2999"));
}

async fn a_job_is_followed_and_stopped(head: &Head) {
    let client = head.client();
    let mut tail = whole(&client, "runs");
    read_until(&mut tail, "driver is up").await;
    assert_eq!(client.stop_job(&id("runs")).await, Ok(true));
    let (_, end) = drain(&mut tail).await;
    assert_eq!(end, LogEvent::Complete);
    assert_eq!(client.job(&id("runs")).await.unwrap().job.status, JobStatus::Stopped);
    assert_eq!(client.stop_job(&id("runs")).await, Ok(false), "it has ended already");
}

/// Ray's response to the stop of a pending job does not say what happens to the job, so only its status counts.
async fn the_status_shows_whether_a_pending_job_was_stopped(head: &Head) {
    let client = head.client();
    let before = client.job(&id("waits")).await.unwrap().job.status;
    assert_eq!(before, JobStatus::Pending);
    assert_eq!(client.stop_job(&id("waits")).await, Ok(true));
    let after = client.job(&id("waits")).await.unwrap().job.status;
    assert!(matches!(after, JobStatus::Pending | JobStatus::Stopped), "{after:?}");
}

async fn log_files_are_listed_read_and_followed(head: &Head) {
    let client = head.client();
    let node = Poller::new(head.client()).refresh().await.unwrap().nodes[0].id;
    let files = client.log_files(node, "*").await.unwrap();
    let all: Vec<_> = files.0.iter().flat_map(|(_, names)| names).map(marin_tui::model::Text::raw).collect();
    assert!(
        all.contains(&"job-driver-ends.log") && all.iter().any(|n| n.starts_with("gcs_server")),
        "{all:?}"
    );
    let name = "job-driver-ends.log".into();
    let end = client.read_log(node, &name, 2).await.unwrap();
    assert_eq!(cleaned(&end), ["3000", "no line break"].map(Line::from));
    let raw = client.read_job_log(&id("not utf-8"), node, 2).await.unwrap();
    assert_eq!(raw.as_ref(), b"caf\xe9\nend\n");

    let path = head.logs().join("followed.log");
    std::fs::write(&path, "one\ntwo\nhalf").unwrap();
    let mut tail = ending(&client, Polled::File(node, "followed.log".into()), 1);
    let lines = |event| match event {
        Some(LogEvent::Lines(part)) => part.lines,
        other => panic!("{other:?}"),
    };
    assert_eq!(lines(tail.next().await), ["two".into()]);
    let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(b" a line\nthree\n").unwrap();
    assert_eq!(lines(tail.next().await), ["half a line".into(), "three".into()]);
}

async fn a_package_comes_back_byte_for_byte(head: &Head) {
    let package: Vec<u8> = (0..100_000u32).flat_map(u32::to_le_bytes).collect();
    head.upload("_ray_pkg_0123456789abcdef.zip", package.clone()).await;
    let client = head.client();
    let mut read = Vec::new();
    client.package("gcs://_ray_pkg_0123456789abcdef.zip", &mut read).await.unwrap().unwrap();
    assert_eq!(read, package);
    assert!(matches!(client.package("gcs://no.zip", &mut Vec::new()).await, Err(RayError::NotFound(_))));

    // Larger than the dashboard accepts: uploaded past it, and read back.
    let large: Vec<u8> = (0..27_000_000u32).flat_map(u32::to_le_bytes).collect();
    let mut file = tempfile::tempfile().unwrap();
    std::io::Write::write_all(&mut file, &large).unwrap();
    std::io::Seek::rewind(&mut file).unwrap();
    let uri = "gcs://_ray_pkg_fedcba9876543210.zip";
    client.upload_package_file(uri, file).await.unwrap();
    assert!(client.has_package(uri).await.unwrap());
    let mut read = Vec::new();
    client.package(uri, &mut read).await.unwrap().unwrap();
    assert!(read == large, "{} bytes came back", read.len());
}

async fn the_usage_of_a_host_is_read(head: &Head) {
    let client = head.client();
    let node = Poller::new(head.client()).refresh().await.unwrap().nodes[0].id;
    let physical = head.until("the agent has reported", async || client.physical(node).await.unwrap()).await;
    let (used, total) = physical.memory.unwrap();
    assert!(used > 0 && used < total && physical.disk.is_some() && physical.cpu_percent.is_some());
    assert_eq!(client.physical_all().await.unwrap().len(), 1);
    let nobody = marin_tui::model::NodeId::from_bytes(&[7; 28]).unwrap();
    assert_eq!(client.physical(nobody).await, Ok(None));
    head.until("a status is reported", async || {
        client.cluster_status_text().await.unwrap().contains("Autoscaler status").then_some(())
    })
    .await;
}

/// Ray refuses a label selector before 2.54. Later versions have it only at the actor that runs the entrypoint.
async fn a_label_selector_is_read_back(head: &Head) {
    let labels = BTreeMap::from([("zone".to_owned(), "nowhere".to_owned())]);
    let client = head.client();
    let submitted = client
        .submit_job(&Submission {
            entrypoint: "true".into(),
            submission_id: "labeled".into(),
            entrypoint_label_selector: labels.clone(),
            ..Submission::default()
        })
        .await;
    let is_accepted = client.check_label_selector(&labels).await;
    if head.version() == "2.53.0" {
        assert!(submitted.is_err() && matches!(is_accepted, Err(RayError::NoLabelSelectors { .. })));
        // No entrypoint has one, whether its actor is listed or not.
        assert_eq!(client.label_selector(&id("labeled")).await, Ok(Some(BTreeMap::new())));
        return;
    }
    submitted.unwrap();
    is_accepted.unwrap();
    let labeled = [id("labeled")];
    let listed = head
        .until("its actor is listed", async || {
            client.label_selectors(&labeled).await.unwrap().remove(&labeled[0])
        })
        .await;
    assert_eq!(listed, labels);
    assert_eq!(client.label_selector(&labeled[0]).await, Ok(Some(labels)));
    // Ended, and placed on the head by Ray itself.
    assert_eq!(client.label_selector(&id("ends")).await, Ok(Some(BTreeMap::new())));
    assert_eq!(client.label_selector(&id("unknown")).await, Ok(None));
}

async fn the_contract_holds(version: &str) {
    // A manually started head does not scale: v1's stand-in is not an autoscaler.
    let mut head = Head::start(version, AutoscalerVersion::None).await;
    a_wrong_token_is_distinguished_from_a_missing_one(&head).await;
    submit_the_jobs(&mut head).await;
    the_usage_of_a_host_is_read(&head).await;
    a_package_comes_back_byte_for_byte(&head).await;
    both_channels_agree(&head, AutoscalerVersion::None).await;
    a_pending_placement_group_is_what_its_driver_waits_for(&head).await;
    a_refresh_is_light_and_keeps_what_did_not_change(&head).await;
    a_job_has_its_details(&head).await;
    log_files_are_listed_read_and_followed(&head).await;
    a_log_is_followed_to_its_end(&head).await;
    the_status_shows_whether_a_pending_job_was_stopped(&head).await;
    a_job_is_followed_and_stopped(&head).await;
    a_label_selector_is_read_back(&head).await;
    assert!(!format!("{:?}", head.client()).contains(TOKEN), "a token must never be printed");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_contract_holds_on_ray_2_53() {
    the_contract_holds("2.53.0").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_contract_holds_on_ray_2_60() {
    the_contract_holds("2.60.0").await;
}

/// With v2, only the GCS reports which demand is infeasible, and that the report is renewed.
#[tokio::test(flavor = "multi_thread")]
async fn both_channels_agree_under_autoscaler_v2() {
    let mut head = Head::start("2.60.0", AutoscalerVersion::V2).await;
    submit_the_jobs(&mut head).await;
    both_channels_agree(&head, AutoscalerVersion::V2).await;
    let mut poller = Poller::new(head.client());
    let report = head
        .until("the report is seen to be renewed", async || {
            let report = poller.refresh().await.unwrap().autoscaler;
            report.reported.map(|_| report)
        })
        .await;
    assert!(report.demands.iter().all(|d| d.infeasible), "{:#?}", report.demands);
}
