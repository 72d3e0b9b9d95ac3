//! Runs the ray command on this machine. Its output is passed on as it arrives, within limits; a command that hangs is
//! stopped.

use super::call::Call;
use super::performer::Performer;
use super::{failure, then_resume};
use crate::model::command_line::shell_quote;
use crate::model::{Problem, Progress, Timestamp};
use crate::ssh::Terminal;
use crate::supervisor;
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Time without output after which a message reports it.
const SILENCE_LIMIT: Duration = Duration::from_secs(30);
/// Time without output after which a ray command counts as hung: a setup command may build something silently for half
/// an hour.
const MAX_SILENCE: Duration = Duration::from_secs(1800);
/// `ray up` retries a failing login to the head every five seconds, for 15 minutes. An existing machine accepts a login
/// at once or never; one that Google has just created needs a minute or two for sshd and its keys.
const LOGIN_TIMEOUT: [Duration; 2] = [Duration::from_secs(30), Duration::from_secs(240)];
/// The line that it prints for each failed attempt.
const NO_LOGIN: &str = "SSH still not available";
/// The line that it prints once it has logged in (`NodeUpdater.wait_ready`).
const LOGGED_IN: &str = "Success.";
/// Maximum number of output lines passed on per second.
const LINES_PER_SECOND: usize = 500;
/// Number of last lines that are kept to explain a failure.
const MAX_LINES: usize = 50;

impl Performer {
    /// Runs a ray command that changes the cluster, like [`Self::ray`]; a dry run only records it.
    pub(super) async fn ray_changes(
        &self,
        arguments: &[&OsStr],
        progress: &mpsc::UnboundedSender<Progress>,
    ) -> Result<(i32, Vec<String>), Problem> {
        let line = || {
            let settings = self.autoscaler_setting().iter().copied().map(str::to_owned);
            let ray = self.options.ray.iter().cloned();
            let arguments = arguments.iter().map(|word| word.to_string_lossy().into_owned());
            let words: Vec<String> = settings.chain(ray).chain(arguments).map(|w| shell_quote(&w)).collect();
            Call::run(words.join(" "))
        };
        if self.executor.records(line) { Ok((0, Vec::new())) } else { self.ray(arguments, progress).await }
    }

    /// Runs ray on this machine; returns its exit code and last lines. Stops a command that hangs or cannot log in.
    pub(super) async fn ray(
        &self,
        arguments: &[&OsStr],
        progress: &mpsc::UnboundedSender<Progress>,
    ) -> Result<(i32, Vec<String>), Problem> {
        self.run_ray(arguments, None, progress).await
    }

    /// Like [`Self::ray_changes`], in a terminal, with an answer to each of its questions: the text to type once a line
    /// contains these words.
    pub(super) async fn ray_answered(
        &self,
        arguments: &[&OsStr],
        answers: Answers,
        progress: &mpsc::UnboundedSender<Progress>,
    ) -> Result<(i32, Vec<String>), Problem> {
        if self.executor.is_recording() {
            return self.ray_changes(arguments, progress).await;
        }
        let terminal = Terminal::open().map_err(|e| e.problem(Timestamp::now()))?;
        self.run_ray(arguments, Some((&terminal, answers)), progress).await
    }

    async fn run_ray(
        &self,
        arguments: &[&OsStr],
        prompts: Option<(&Terminal, Answers)>,
        progress: &mpsc::UnboundedSender<Progress>,
    ) -> Result<(i32, Vec<String>), Problem> {
        let (sender, lines) = mpsc::channel(256);
        let terminal = prompts.map(|(terminal, _)| terminal);
        let running =
            supervisor::run_ray(&self.options, arguments, self.autoscaler_setting(), terminal, sender);
        let login_timeout = LOGIN_TIMEOUT[usize::from(self.is_google())];
        let output = ProgramOutput { prompts, ..ProgramOutput::new(progress) };
        follow(running, lines, output, Limits { quiet: SILENCE_LIMIT, silence: MAX_SILENCE, login_timeout })
            .await
    }
}

/// The text to type after a line that contains these words.
pub(super) type Answers = &'static [(&'static str, &'static str)];

/// Timeouts of one program run; the defaults are the constants above.
struct Limits {
    quiet: Duration,
    silence: Duration,
    login_timeout: Duration,
}

/// Reads the program's output until it exits.
async fn follow(
    running: impl Future<Output = Result<i32, Problem>>,
    mut lines: mpsc::Receiver<String>,
    mut output: ProgramOutput<'_>,
    Limits { quiet, silence, login_timeout }: Limits,
) -> Result<(i32, Vec<String>), Problem> {
    tokio::pin!(running);
    let (mut first_refusal, mut silent) = (None, Duration::ZERO);
    let code = loop {
        tokio::select! {
            code = &mut running => break code?,
            Some(line) = lines.recv() => {
                silent = Duration::ZERO;
                let is_refused = line.contains(NO_LOGIN);
                output.take(line);
                if is_refused && first_refusal.get_or_insert_with(Instant::now).elapsed() > login_timeout {
                    return Err(output.no_login());
                }
            }
            () = tokio::time::sleep(quiet) => {
                silent += quiet;
                if silent >= silence {
                    let what = format!("the ray command printed nothing for {} s and was stopped", silent.as_secs());
                    return Err(failure(what, then_resume("run the same command to see where it hangs")));
                }
                output.catch_up();
                output.pass_on(format!("no output for {} s", silent.as_secs()));
            }
        }
    };
    while let Ok(line) = lines.try_recv() {
        output.take(line);
    }
    // A machine that is still booting refuses logins, too; what failed after a login has another reason.
    let mut after_login = output.last.iter().rev().take_while(|line| !line.contains(LOGGED_IN));
    let was_refused = code != 0 && after_login.any(|line| line.contains(NO_LOGIN));
    let no_login = was_refused.then(|| output.no_login());
    let last = output.end();
    no_login.map_or(Ok((code, last)), Err)
}

/// The output of a program. Excess output is dropped, so that a slow receiver does not have to buffer it.
struct ProgramOutput<'a> {
    progress: &'a mpsc::UnboundedSender<Progress>,
    prompts: Option<(&'a Terminal, Answers)>,
    last: VecDeque<String>,
    since: Instant,
    passed_on: usize,
    omitted: usize,
}

impl<'a> ProgramOutput<'a> {
    fn new(progress: &'a mpsc::UnboundedSender<Progress>) -> Self {
        Self {
            progress,
            prompts: None,
            last: VecDeque::new(),
            since: Instant::now(),
            passed_on: 0,
            omitted: 0,
        }
    }

    fn pass_on(&self, line: String) {
        // The receiver may have been dropped.
        let _ = self.progress.send(Progress::Output(line));
    }

    fn take(&mut self, line: String) {
        if let Some((terminal, answers)) = self.prompts
            && let Some((_, answer)) = answers.iter().find(|(words, _)| line.contains(words))
            && let Err(e) = terminal.answer(answer)
        {
            self.pass_on(format!("cannot answer the ray command: {e}"));
        }
        if self.since.elapsed() >= Duration::from_secs(1) {
            self.catch_up();
            (self.since, self.passed_on) = (Instant::now(), 0);
        }
        if self.passed_on < LINES_PER_SECOND {
            self.passed_on += 1;
            self.pass_on(line.clone());
        } else {
            self.omitted += 1;
        }
        if self.last.len() == MAX_LINES {
            self.last.pop_front();
        }
        self.last.push_back(line);
    }

    /// Passes on the last of the omitted lines, after the number of the others.
    fn catch_up(&mut self) {
        let missed = self.omitted.min(self.last.len());
        let omitted = std::mem::take(&mut self.omitted) - missed;
        if omitted > 0 {
            self.pass_on(format!("({omitted} lines omitted)"));
        }
        self.last.range(self.last.len() - missed..).for_each(|line| self.pass_on(line.clone()));
    }

    /// Passes on the last lines if they were omitted, and returns them.
    fn end(mut self) -> Vec<String> {
        self.catch_up();
        self.last.into()
    }

    fn no_login(&self) -> Problem {
        let is_why = |l: &&String| l.contains("ermission denied") || l.contains("onnect");
        let why = self.last.iter().rev().find(is_why).cloned().unwrap_or_default();
        let hint = then_resume("check the key, the user and sshd on the head");
        failure(format!("the ray command cannot log in to the head: {why}"), hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excess_output_is_omitted_except_for_the_last_lines() {
        let (progress, mut received) = mpsc::unbounded_channel();
        let mut output = ProgramOutput::new(&progress);
        for i in 0..100_000 {
            output.take(i.to_string());
        }
        assert_eq!(output.end().len(), MAX_LINES);
        let mut lines = Vec::new();
        while let Ok(Progress::Output(line)) = received.try_recv() {
            lines.push(line);
        }
        assert!(lines.iter().any(|l| l.ends_with("lines omitted)")), "{} lines", lines.len());
        let last: Vec<_> = (99_950..100_000).map(|i| i.to_string()).collect();
        assert_eq!(lines[lines.len() - MAX_LINES..], last);
    }

    #[tokio::test]
    async fn a_head_that_refuses_logins_times_out() {
        let (progress, _received) = mpsc::unbounded_channel();
        let (sender, lines) = mpsc::channel(1);
        let hour = Duration::from_secs(3600);
        let limits = Limits { quiet: hour, silence: hour, login_timeout: Duration::from_millis(20) };
        let retries = async {
            sender.send("ssh: connect to host 10.0.0.1: Connection refused".to_owned()).await.unwrap();
            while sender.send("SSH still not available, retrying".to_owned()).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let (ended, ()) = tokio::join!(
            follow(std::future::pending(), lines, ProgramOutput::new(&progress), limits),
            retries
        );
        let problem = ended.unwrap_err();
        assert!(problem.what.contains("cannot log in"), "{}", problem.what);
    }

    #[tokio::test]
    async fn silence_is_reported_and_a_hung_program_is_stopped() {
        let (progress, mut received) = mpsc::unbounded_channel();
        let (sender, lines) = mpsc::channel(1);
        let [quiet, silence] = [5, 50].map(Duration::from_millis);
        let limits = Limits { quiet, silence, login_timeout: silence };
        sender.send("one".to_owned()).await.unwrap();
        let ended = follow(std::future::pending(), lines, ProgramOutput::new(&progress), limits).await;
        assert!(ended.unwrap_err().what.contains("printed nothing"));
        let mut lines = Vec::new();
        while let Ok(Progress::Output(line)) = received.try_recv() {
            lines.push(line);
        }
        assert_eq!(lines[0], "one");
        assert!(lines.len() == 10 && lines[1..].iter().all(|l| l == "no output for 0 s"), "{lines:?}");
    }
}
