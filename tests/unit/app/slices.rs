//! Nodes by slice: the pane, the table of all clusters, the page of a slice, and the return to single nodes.

use super::*;
use marin_tui::reconcile::{HostsKey, HostsKind};
use std::collections::BTreeMap;

/// A cluster with slices, whose nodes pane is focused and grouped by slice.
fn by_slice() -> App {
    let mut app = shown();
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(sliced())));
    press(&mut app, "1vgg");
    app
}

fn cells(app: &App) -> Vec<String> {
    let (listing, context) = (app.listing().unwrap(), app.cell_context(NOW));
    let row = |p| listing.cells(&context, p).iter().map(|c| c.text.to_string()).collect::<Vec<_>>().join("|");
    (0..listing.len()).map(row).collect()
}

fn is_page_of(app: &App, slice: &str) -> bool {
    let key = HostsKey { kind: HostsKind::Slice, name: slice.into(), lost: None };
    *app.view() == View::Slice(0, key)
}

#[test]
fn the_nodes_pane_is_grouped_by_slice_by_default_and_keeps_the_choice() {
    let keymap = marin_tui::app::Keymap::with_changes(actions(), &BTreeMap::default()).unwrap();
    let listed = vec![marin_tui::app::Listed::Cluster(spec(CLUSTER))];
    let mut app = App::new(listed, keymap);
    app.start(None);
    press(&mut app, "1");
    assert_eq!(app.listing().unwrap().name(), "slices");
    assert!(footer(&mut app).contains("v nodes"), "the footer has the table that the key switches to");
    let flat = Layout { by_slice: Some(false), ..Layout::default() };
    assert_eq!(press(&mut app, "v"), [Effect::Remember(flat.clone())]);
    assert_eq!(app.listing().unwrap().name(), "nodes");
    assert!(footer(&mut app).contains("v slices"));
    let app = app.arranged(&BTreeMap::default(), &Layout { by_slice: Some(true), ..flat });
    assert_eq!(app.listing().unwrap().name(), "slices");
}

#[test]
fn lost_slices_come_first_then_incomplete_ones_then_complete_ones() {
    let app = by_slice();
    let seen = cells(&app);
    let begins = [
        "✕|ray-m-worker-cc30-tpu|v4-128|4x4x4|16|lost 25m ago: preempted: health check failed",
        "◐|ray-m-worker-bb20-tpu|v4-64|2x4x4|4/8|incomplete|16/16|",
        "●|ray-m-worker-aa10-tpu|v4-512|4x8x8|64/64|alive|256/256|",
        "●|cpu_worker|TPU-V4|-|3|alive|-|",
        "⌂|head|-|-|1|alive|-|",
    ];
    assert_eq!(seen.len(), begins.len(), "{seen:#?}");
    for (row, begin) in seen.iter().zip(begins) {
        assert!(row.starts_with(begin), "{row}");
    }
}

#[test]
fn a_type_has_the_same_name_at_every_width() {
    let mut app = by_slice();
    let hosts = (1..=4).map(|n| host(n, "ray-m-worker-aa10-tpu", "v5litepod-16", "4x4")).collect();
    let state = Snapshot { nodes: Arc::new(hosts), ..sliced() };
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(state)));
    for width in [80, 120, 200] {
        let lines = super::screen::lines_of(&mut app, width, 40);
        let row = lines.iter().find(|line| line.contains("ray-m-worker-aa10-tpu"));
        assert!(row.is_some_and(|row| row.contains(" v5litepod-16 ")), "{width}: {lines:#?}");
    }
}

#[test]
fn a_slice_opens_with_its_hosts_and_a_host_with_its_page() {
    let mut app = by_slice();
    press(&mut app, "j<enter>");
    assert!(is_page_of(&app, "ray-m-worker-bb20-tpu") && app.context() == Context::Slice);
    assert_eq!(app.listing().unwrap().len(), 8);
    press(&mut app, "/alive<enter>");
    assert_eq!(app.listing().unwrap().len(), 4);
    press(&mut app, "<esc><enter>");
    assert_eq!(app.context(), Context::Node);
    press(&mut app, "<esc><esc>");
    assert_eq!((app.view().clone(), app.context()), (View::Cluster(0), Context::Nodes));
    // A row of one host opens that host.
    press(&mut app, "G<enter>");
    assert_eq!(details(&app)[0], ("name".to_owned(), "ray-m-head".to_owned()));
}

#[test]
fn the_page_of_a_slice_stays_open_while_its_hosts_change() {
    let mut app = by_slice();
    press(&mut app, "j<enter>");
    let mut later = sliced();
    let all = Arc::make_mut(&mut later.nodes);
    for node in all.iter_mut().filter(|n| n.slice().is_some_and(|s| s.raw().contains("bb20"))) {
        *node = dead(node.clone(), 30, DeathReason::Unexpected);
    }
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(later.clone())));
    assert!(app.listing().unwrap().len() == 8 && cells(&app).iter().all(|row| row.contains("lost")));
    paint(&mut app, 80, 24);
    Arc::make_mut(&mut later.nodes).retain(|n| n.slice().is_none());
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(later)));
    assert!(app.listing().unwrap().is_empty());
    paint(&mut app, 80, 24);
    press(&mut app, "<enter>d");
    assert!(is_page_of(&app, "ray-m-worker-bb20-tpu"), "there is nothing to open");
}

#[test]
fn an_outlier_is_marked_and_its_figures_are_requested() {
    let mut app = by_slice();
    let (effects, _) = paint(&mut app, 200, 60);
    let [Effect::Ask(_, Request::Visible(ids))] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(ids.len(), 64 + 4 + 3 + 1, "all alive hosts of the rows on the screen");
    let of = |n: u8, cpu| (node(n, "", 0.0, 0.0).id, figures(cpu, 40, 30));
    let samples: Vec<_> = (1..=64).map(|n| of(n, if n == 17 { 2.0 } else { 70.0 })).collect();
    send_update(&mut app, CLUSTER, ClusterEvent::Physical(samples));
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(sliced())));
    let seen = cells(&app);
    assert!(seen[2].starts_with("!|ray-m-worker-aa10-tpu|v4-512|4x8x8|64/64|outlier|"), "{seen:#?}");
    press(&mut app, "jj<enter>");
    assert!(is_page_of(&app, "ray-m-worker-aa10-tpu"));
    let listing = app.listing().unwrap();
    assert_eq!((listing.total(), listing.len()), (64, 64));
    send_update(
        &mut app,
        CLUSTER,
        ClusterEvent::Physical(vec![(node(5, "", 0.0, 0.0).id, figures(70.0, 95, 30))]),
    );
    press(&mut app, "<esc>");
    assert!(cells(&app).iter().any(|row| row.contains("mem 95% w-5")), "a risk to jobs comes first");
}

#[test]
fn an_outlier_is_not_marked_by_figures_that_have_expired() {
    let mut app = by_slice();
    let of = |n: u8| (node(n, "", 0.0, 0.0).id, figures(if n == 17 { 2.0 } else { 70.0 }, 40, 30));
    send_update(&mut app, CLUSTER, ClusterEvent::Physical((1..=64).map(of).collect()));
    let mark = |app: &App| {
        let rows = cells(app);
        let row = rows.iter().find(|row| row.contains("|ray-m-worker-aa10-tpu|"));
        row.and_then(|row| row.split('|').next()).map(str::to_owned)
    };
    assert_eq!(mark(&app).as_deref(), Some("!"));
    let later = NOW.plus(Duration::from_secs(3600));
    let snapshot = Snapshot { taken: later, ..sliced() };
    let event = update(&app, CLUSTER, ClusterEvent::Snapshot(Arc::new(snapshot)));
    app.update(event, later);
    assert_eq!(mark(&app).as_deref(), Some("●"));
}

#[test]
fn a_host_with_old_figures_does_not_hide_the_worst_of_the_others() {
    let mut app = by_slice();
    let of = |n: u8, memory| (node(n, "", 0.0, 0.0).id, figures(70.0, memory, 30));
    let first = (1..=64).map(|n| of(n, if n == 17 { 95 } else { 40 })).collect();
    send_update(&mut app, CLUSTER, ClusterEvent::Physical(first));
    assert!(cells(&app).iter().any(|row| row.contains("mem 95% w-17")));
    // Its metrics agent has died; the others report on.
    let later = NOW.plus(Duration::from_secs(600));
    let others = (1..=64).filter(|n| *n != 17).map(|n| of(n, if n == 5 { 93 } else { 40 })).collect();
    let state = Snapshot { taken: later, ..sliced() };
    for event in [ClusterEvent::Physical(others), ClusterEvent::Snapshot(Arc::new(state))] {
        let event = update(&app, CLUSTER, event);
        app.update(event, later);
        let (listing, context) = (app.listing().unwrap(), app.cell_context(later));
        let texts = |p| listing.cells(&context, p).into_iter().map(|cell| cell.text.into_owned());
        assert!((0..listing.len()).flat_map(texts).any(|text| text == "mem 93% w-5"));
    }
}

#[test]
fn slices_copy_their_name_single_hosts_their_id_and_other_groups_nothing() {
    let mut app = by_slice();
    let copied = |app: &mut App| match &press(app, "y")[..] {
        [Effect::Copy { what, text }] => format!("{what} {text}"),
        [] => said(app).to_owned(),
        other => panic!("{other:?}"),
    };
    press(&mut app, "j");
    assert_eq!(copied(&mut app), "slice name ray-m-worker-bb20-tpu");
    press(&mut app, "G");
    assert_eq!(copied(&mut app), format!("node id {}", node(210, "", 0.0, 0.0).id));
    press(&mut app, "k");
    assert_eq!(copied(&mut app), "nothing to copy here", "three workers of a type");
}

#[test]
fn the_job_that_holds_a_slice_is_shown_from_its_vitals() {
    let mut app = by_slice();
    send_update(&mut app, CLUSTER, held("04000000", [3, 9]));
    let seen = cells(&app);
    assert!(seen[2].contains("|256/256|04000000|"), "{seen:#?}");
    send_update(
        &mut app,
        CLUSTER,
        ClusterEvent::Snapshot(Arc::new(Snapshot { taken: before(0), ..sliced() })),
    );
    assert_eq!(cells(&app), seen, "known jobs are kept");
    press(&mut app, "/job:0400<enter>");
    assert_eq!(cells(&app).len(), 1);
    press(&mut app, "<esc>");
    let stacks = press(&mut app, "W");
    assert!(
        stacks.contains(&Effect::Stacks(ClusterName::new(CLUSTER), JobId("04000000".into()))),
        "{stacks:?}"
    );
}

#[test]
fn of_several_jobs_on_a_slice_one_is_chosen_for_its_stacks() {
    let mut app = by_slice();
    let ClusterEvent::Vitals(one) = held("04000000", [3, 9]) else { unreachable!() };
    let is_other =
        |job: &&Arc<Job>| job.driver.is_some() && !job.status.is_ended() && !one.jobs.contains_key(&job.key);
    let other = Arc::clone(app.clusters()[0].snapshot.jobs.iter().find(is_other).unwrap());
    let mut two = ClusterVitals::clone(&one);
    let same = Arc::clone(two.jobs.values().next().unwrap());
    two.jobs.insert(other.key.clone(), same);
    send_update(&mut app, CLUSTER, ClusterEvent::Vitals(Arc::new(two)));
    press(&mut app, "/job:0400<enter>");
    assert_eq!((cells(&app).len(), press(&mut app, "W")), (1, vec![]));
    assert!(app.prompt().is_some(), "which of the two?");
    let stacks = press(&mut app, &format!("{}<enter>", other.key));
    let driver = other.driver.clone().unwrap();
    assert!(stacks.contains(&Effect::Stacks(ClusterName::new(CLUSTER), driver)), "{stacks:?}");
    assert!(matches!(app.view(), View::Details(_)), "{:?}", app.view());
}

#[test]
fn disabled_vitals_are_shown_in_the_job_column() {
    let mut app = by_slice();
    assert!(cells(&app)[2].contains("|256/256|-|"), "{:#?}", cells(&app));
    let limits = VitalLimits { every: Duration::ZERO, ..VitalLimits::default() };
    send_update(
        &mut app,
        CLUSTER,
        ClusterEvent::Vitals(Arc::new(ClusterVitals { limits, ..ClusterVitals::default() })),
    );
    let seen = cells(&app);
    assert!(seen[2].contains("|256/256|vitals off|") && !seen[0].contains("vitals off"), "{seen:#?}");
    send_update(
        &mut app,
        CLUSTER,
        ClusterEvent::Snapshot(Arc::new(Snapshot { session: "another".into(), ..sliced() })),
    );
    assert_eq!(cells(&app)[2], seen[2], "also after a restart of the cluster");
}

#[test]
fn toggling_moves_from_a_slice_to_its_hosts_and_back() {
    let mut app = by_slice();
    press(&mut app, "j");
    press(&mut app, "v");
    let chosen = app.target();
    let Some(Target::Node(0, id)) = chosen else { panic!("{chosen:?}") };
    let node = app.clusters()[0].node(&id).unwrap();
    assert!(node.slice().is_some_and(|slice| slice.raw() == "ray-m-worker-bb20-tpu"));
    press(&mut app, "v");
    assert!(matches!(app.target(), Some(Target::Hosts(0, key)) if key.name.raw() == "ray-m-worker-bb20-tpu"));
    // The head's row is in both tables.
    press(&mut app, "Gv");
    assert_eq!(app.target_node().map(|(_, node)| node.is_head), Some(true));
    press(&mut app, "v");
    assert_eq!(app.target_node().map(|(_, node)| node.is_head), Some(true));
}

#[test]
fn slices_with_the_same_name_on_two_clusters_are_separate() {
    let mut app = app(&["alpha", "beta"]);
    for name in ["alpha", "beta"] {
        send_update(&mut app, name, ClusterEvent::Link(up()));
        send_update(&mut app, name, ClusterEvent::Snapshot(Arc::new(sliced())));
    }
    press(&mut app, "Nv");
    assert_eq!(app.listing().unwrap().name(), "all-slices");
    assert_eq!(cells(&app).len(), 10);
    press(&mut app, "/slice:aa10 cluster:beta<enter><enter>");
    assert_eq!(app.view().cluster_index(), Some(1), "{:?}", app.view());
    assert_eq!(app.listing().unwrap().len(), 64);
    press(&mut app, "<esc>");
    assert_eq!(app.context(), Context::AllNodes);
    // A host's name finds its slice, and sorting works as in other tables.
    press(&mut app, "<esc>/node:aa10-tpu-w-64<enter>");
    assert_eq!(cells(&app).len(), 2);
    press(&mut app, "<esc>>>>");
    assert!(app.listing().unwrap().sorted_by().is_some());
}

#[test]
fn a_slice_is_the_same_on_every_page_where_ray_has_no_labels() {
    let mut app = shown();
    let mut state = sliced();
    for node in Arc::make_mut(&mut state.nodes).iter_mut().filter(|node| node.slice().is_some()) {
        let pod = Resource { name: node.slice().unwrap().clone(), total: 1.0, used: None };
        node.resources.0.push(pod);
        node.labels = [].into();
    }
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(state)));
    let ClusterEvent::Vitals(mut cluster_vitals) = held("04000000", 1..=64) else { unreachable!() };
    for vitals in Arc::make_mut(&mut cluster_vitals).jobs.values_mut() {
        Arc::make_mut(vitals).holds = Some(vec![("TPU".into(), 256.0)]);
    }
    send_update(&mut app, CLUSTER, ClusterEvent::Vitals(cluster_vitals));
    press(&mut app, "1vgg/slice:aa10<enter>");
    assert!(cells(&app)[0].contains("|ray-m-worker-aa10-tpu|") && cells(&app)[0].contains("|64|"));
    // One of its hosts leads to the chips of all of them.
    press(&mut app, "<esc>v/slice:aa10<enter>");
    let chips = press(&mut app, "%");
    let hosts = chips.iter().find_map(|effect| match effect {
        Effect::Chips(_, nodes) => Some(nodes.len()),
        _ => None,
    });
    assert_eq!(hosts, Some(64), "{chips:?}");
    press(&mut app, "<esc><esc>2/job:04000000<enter>d");
    let page = details(&app);
    let holds = ("holds".to_owned(), "TPU 256 on ray-m-worker-aa10-tpu (64 hosts)".to_owned());
    assert!(page.contains(&holds), "{page:#?}");
}

#[test]
fn a_slice_whose_hosts_are_named_after_two_clusters_is_one_slice() {
    let mut app = shown();
    let mut state = sliced();
    let hosts = Arc::make_mut(&mut state.nodes).iter_mut();
    for (n, node) in hosts.filter(|node| node.slice().is_some_and(|s| s.raw().contains("aa10"))).enumerate() {
        let name =
            if n % 2 == 0 { format!("ray-m-worker-aa10-tpu-w-{n}") } else { format!("ray-other-w-{n}") };
        node.name = name.as_str().into();
    }
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(state)));
    let figures = |n: u8| (node(n, "", 0.0, 0.0).id, figures(if n == 18 { 2.0 } else { 70.0 }, 40, 30));
    send_update(&mut app, CLUSTER, ClusterEvent::Physical((1..=64).map(figures).collect()));
    press(&mut app, "1vgg/slice:aa10<enter>");
    let seen = cells(&app);
    assert!(seen.len() == 1 && seen[0].contains("|64/64|outlier|"), "{seen:#?}");
    press(&mut app, "<enter>");
    assert_eq!(app.listing().unwrap().len(), 64);
    paint(&mut app, 80, 24);
}
