//! Sample workers of a job, as a reading of their log files reports them.

use crate::sample::NOW;
use marin_tui::app::App;
use marin_tui::job_workers::{
    Clocks, JobReadingCost, JobWorkers, LastLines, Part, WorkersAnswer, WorkersReading, causes, failure,
    fold, in_order, last_files, worker_overview,
};
use marin_tui::logs::Clock;
use marin_tui::model::*;
use std::time::Duration;

/// The time `ago` minutes before NOW in the format of the workers' loggers, without seconds.
fn minute(ago: i64) -> String {
    let at = jiff::Timestamp::from_millisecond(NOW.as_millis() - ago * 60_000).unwrap();
    at.strftime("%F %H:%M").to_string()
}

/// The workers of the watched job: of eight, the third has written nothing for 20 minutes, and the fifth lags behind.
pub fn workers(app: &App) -> (JobWorkers, Vec<LastLines>) {
    let cluster = &app.clusters()[0];
    let job = cluster.job(cluster.job_workers.job.as_ref().unwrap()).unwrap();
    let known = cluster.known_of(job);
    let worker = |n: u8| JobWorker {
        node: NodeId::from_bytes(&[if n < 4 { 1 } else { 2 }; 28]).unwrap(),
        pid: 100 + u32::from(n),
        name: "train".into(),
        kind: "train".into(),
        state: WorkerState::Running,
        files: ["out", "err"]
            .iter()
            .map(|end| format!("worker-a{n}-01000000-10{n}.{end}").as_str().into())
            .collect(),
    };
    let job_workers = JobWorkers::new(known, (0..8).map(worker).collect(), Clock::utc(NOW));
    let (long_ago, recent_changes) = (minute(20), minute(1));
    let lines = |n: usize| -> Vec<Line> {
        match n {
            2 => vec![format!("{long_ago}:00,000 INFO step 900 loss 2.9").into()],
            4 => vec![format!("{recent_changes}:58,000 INFO step 1000 loss 2.8").into()],
            _ => vec![
                format!("{recent_changes}:57,000 INFO step 1199 loss 2.2").into(),
                format!("{recent_changes}:58,00{n} INFO step 1200 loss 2.{n}").into(),
            ],
        }
    };
    let tails = (0..8).map(|worker| LastLines { worker, is_err: true, lines: lines(worker) }).collect();
    (job_workers, tails)
}

/// The result of a reading of the workers of the watched job.
pub fn reading(app: &App, part: Part) -> WorkersReading {
    let (job_workers, mut tails) = workers(app);
    let what = match part {
        Part::Overview => WorkersAnswer::Overview {
            answers: worker_overview(&job_workers, &tails, NOW),
            last: last_files(&job_workers, &tails),
        },
        Part::Lines => {
            let said: Vec<_> = in_order(&job_workers, tails).collect();
            let folded = fold(said.iter(), &job_workers);
            WorkersAnswer::Lines { said, folded, whole_since: None }
        }
        Part::Cause => {
            let trace =
                ["Traceback (most recent call last):", "  File \"a.py\", line 3, in f", "ValueError: bad"];
            tails[5].lines.extend(trace.map(Line::from));
            WorkersAnswer::Cause(Box::new(failure(
                &job_workers,
                causes(&job_workers, &tails, None, &Clocks::new()),
            )))
        }
    };
    let cost = JobReadingCost { requests: 24, bytes: 4_100_000, took: Duration::from_millis(2300) };
    WorkersReading { at: NOW, cost, job_workers, idle: 0, what }
}
