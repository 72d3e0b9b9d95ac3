//! `monitor.log` of a simulated cluster: the autoscaler's loop, its launches, and the exception that repeats when it
//! does not notice that a machine no longer exists.

use super::stamp::stamp;
use std::fmt::Write;

/// Milliseconds between two loops.
pub(super) const LOOP: u64 = 5000;
/// Lines of one exception.
pub(super) const BLOCK: u64 = 9;

/// A machine that no longer exists.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    /// The TPU VM's name.
    pub name: String,
    pub zone: String,
}

/// The line of loop number `i`, which makes no change.
pub(super) fn quiet(out: &mut String, i: u64, ms: i64) {
    let took = 0.031 + (i * 7919 % 40) as f64 / 1000.0;
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "{}\tINFO autoscaler.py:461 -- The autoscaler took {took:.3} seconds to complete the update iteration.",
        stamp(ms)
    );
}

/// A message of the autoscaler as a log line.
pub(super) fn info_line(ms: i64, message: &str) -> String {
    format!("{}\tINFO autoscaler.py:589 -- {message}", stamp(ms))
}

/// Line `i` of the exception.
pub(super) fn throw(out: &mut String, machine: &Machine, i: u64, ms: i64) {
    let site = "/home/ray/anaconda3/lib/python3.11/site-packages";
    let path = format!("projects/hai-gcp-models/locations/{}/nodes/{}", machine.zone, machine.name);
    let _ = match i {
        0 => writeln!(
            out,
            "{}\tERROR autoscaler.py:394 -- StandardAutoscaler: Error during autoscaling.",
            stamp(ms)
        ),
        1 => writeln!(out, "Traceback (most recent call last):"),
        2 => writeln!(out, "  File \"{site}/ray/autoscaler/_private/autoscaler.py\", line 391, in update"),
        3 => writeln!(out, "    self._update()"),
        4 => writeln!(
            out,
            "  File \"{site}/ray/autoscaler/_private/gcp/node_provider.py\", line 155, in non_terminated_nodes"
        ),
        5 => writeln!(out, "    node = resource.get_instance(node_id=node_id)"),
        6 => writeln!(out, "  File \"{site}/googleapiclient/http.py\", line 938, in execute"),
        7 => writeln!(out, "    raise HttpError(resp, content, uri=self.uri)"),
        _ => writeln!(
            out,
            "googleapiclient.errors.HttpError: <HttpError 404 when requesting https://tpu.googleapis.com/v2alpha/{path}?alt=json returned \"Resource '{path}' was not found\". Details: \"Resource '{path}' was not found\">"
        ),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exception_names_the_machine() {
        let machine = Machine { name: "ray-marin-worker-12ab-tpu".into(), zone: "us-central2-b".into() };
        let mut out = String::new();
        (0..BLOCK).for_each(|i| throw(&mut out, &machine, i, 1_795_000_000_000));
        assert_eq!(out.lines().count() as u64, BLOCK);
        assert!(out.contains("HttpError 404 when requesting"));
        assert!(out.contains("nodes/ray-marin-worker-12ab-tpu?alt=json"));
    }
}
