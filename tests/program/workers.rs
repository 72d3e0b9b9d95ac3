//! Workers added and removed manually and the restart of a cluster in Google Cloud, as run from a shell: against a
//! simulated Google, a head behind SSH, and a ray command that is a script.

mod add;
mod cluster;
mod compute;
mod console;
mod dry;
mod hosts;
mod many;
mod performer;
mod remove;
