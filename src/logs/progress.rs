//! Progress lines: the step of a training run, its total steps, its loss and its rate.

use regex::Regex;
use serde::Deserialize;
use std::borrow::Cow;
use std::sync::LazyLock;
use std::time::Duration;

/// The contents of a progress line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress<'a> {
    /// Name of the task: `train`, `eval`, a bar's description; empty if the line has none.
    pub task: Cow<'a, str>,
    /// Completed steps. Some trackers round the number (`1.20kit`).
    pub step: Option<u64>,
    /// Total number of steps.
    pub total: Option<u64>,
    /// The loss; may be infinite or NaN.
    pub loss: Option<f64>,
    /// Steps per second.
    pub rate: Option<f64>,
    /// Remaining time, as estimated by the program.
    pub remaining: Option<Duration>,
}

/// The patterns that recognize progress lines: those of common trainers, and regular expressions from the settings.
#[derive(Clone, Debug, Default)]
pub struct Patterns {
    own: Vec<Regex>,
}

/// Equal if the texts of the regular expressions are equal.
impl PartialEq for Patterns {
    fn eq(&self, other: &Self) -> bool {
        self.own.iter().map(Regex::as_str).eq(other.own.iter().map(Regex::as_str))
    }
}

impl Patterns {
    /// Adds regular expressions, which are tried before those of common trainers. Their named groups are `step`
    /// (`(?<step>\d+)`), `total`, `loss`, `rate` (steps per second) and `task`; each expression needs `step` or `loss`.
    ///
    /// # Errors
    ///
    /// The first pattern that is invalid, or that captures neither `step` nor `loss`, and why.
    pub fn new<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let read = |pattern: &str| {
            let regex = Regex::new(pattern)
                .map_err(|e| format!("Cannot read the progress pattern '{pattern}': {e}"))?;
            let is_named = regex.capture_names().flatten().any(|name| matches!(name, "step" | "loss"));
            is_named.then_some(regex).ok_or_else(|| {
                format!(
                    "The progress pattern '{pattern}' captures neither step nor loss: add e.g. (?<step>\\d+)"
                )
            })
        };
        Ok(Self { own: patterns.into_iter().map(read).collect::<Result<_, _>>()? })
    }

    /// The progress that a line reports, with or without Ray's prefix.
    pub fn read<'a>(&self, line: &'a str) -> Option<Progress<'a>> {
        let text = super::prefix::prefixed(line).text;
        let own = self.own.iter().find_map(|regex| named(regex, text));
        own.or_else(|| bar_of_ray(text))
            .or_else(|| levanter(text))
            .or_else(|| tqdm(text))
            .or_else(|| pairs(text))
    }

    /// The step that a line reports.
    pub fn step(&self, line: &str) -> Option<u64> {
        self.read(line).and_then(|progress| progress.step)
    }
}

/// Reads a line with a regular expression from the settings.
fn named<'a>(regex: &Regex, text: &'a str) -> Option<Progress<'a>> {
    let found = regex.captures(text)?;
    let group = |name| found.name(name).map(|m| m.as_str());
    Some(Progress {
        task: group("task").unwrap_or_default().into(),
        step: group("step").and_then(count),
        total: group("total").and_then(count),
        loss: group("loss").and_then(number),
        rate: group("rate").and_then(number),
        remaining: None,
    })
}

/// A bar of `ray.experimental.tqdm_ray`: JSON with Ray's marker (`_get_state` there).
fn bar_of_ray(text: &str) -> Option<Progress<'_>> {
    #[derive(Deserialize)]
    struct Bar {
        x: f64,
        desc: Option<String>,
        total: Option<f64>,
    }
    if !text.contains("__ray_tqdm_magic_token__") {
        return None;
    }
    let json = text.get(text.find('{')?..=text.rfind('}')?)?;
    let bar: Bar = serde_json::from_str(json).ok()?;
    Some(Progress {
        task: bar.desc.unwrap_or_default().into(),
        step: Some(bar.x as u64),
        total: bar.total.map(|n| n as u64),
        ..Progress::default()
    })
}

/// `Progress on:train 19.0it/70.0it rate:76.8s/it remaining:1:05:16 elapsed:31:40 postfix:loss=2.34`, which Levanter
/// writes through `tqdm_loggable` (`tqdm_loggable/tqdm_logging.py`). Unknown values are `-` or `?`.
fn levanter(text: &str) -> Option<Progress<'_>> {
    let (_, rest) = text.split_once("Progress on:")?;
    let mut words = rest.split_whitespace();
    let mut task = words.next()?;
    let mut progress = Progress::default();
    let mut is_found = false;
    for word in words {
        if !is_found && let Some((step, total)) = word.split_once('/') {
            progress.step = step.strip_suffix("it").and_then(count);
            progress.total = count(total.strip_suffix("it").unwrap_or(total));
            is_found = true;
        } else if !is_found {
            // A description of several words.
            let end = word.as_ptr() as usize + word.len() - task.as_ptr() as usize;
            task = rest.get(rest.find(task)?..)?.get(..end)?;
        } else if let Some(rate) = word.strip_prefix("rate:") {
            progress.rate = per_second(rate);
        } else if let Some(left) = word.strip_prefix("remaining:") {
            progress.remaining = clock(left);
        }
    }
    progress.loss = value(rest, "loss");
    progress.task = task.into();
    is_found.then_some(progress)
}

/// ` 45%|####5     | 45/100 [00:10<00:12,  4.5it/s, loss=2.3]`, or without a total `45it [00:10,  4.5it/s]`
/// (`format_meter` in `tqdm/std.py`).
fn tqdm(text: &str) -> Option<Progress<'_>> {
    static BAR: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(
            r"^(?<task>.*?)(?:: )?\s*\d+%\|[^|]*\|\s*(?<step>[\d.]+[kMGT]?)/(?<total>[\d.]+[kMGT]?)\s*\[[\d:]+<(?<left>[\d:?]+)(?:,\s*(?<rate>[\d.?]+\s?\w*/\w+))?",
        )
        .ok()
    });
    static OPEN: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(
            r"^(?<task>.*?)(?:: )?(?<step>[\d.]+[kMGT]?)it \[[\d:]+(?:,\s*(?<rate>[\d.?]+\s?\w*/\w+))?",
        )
        .ok()
    });
    let regex = match () {
        () if text.contains("%|") => &BAR,
        () if text.contains("it [") => &OPEN,
        () => return None,
    };
    let found = regex.as_ref()?.captures(text)?;
    let group = |name| found.name(name).map(|m| m.as_str());
    let (_, after) = text.rsplit_once('[')?;
    Some(Progress {
        task: group("task").unwrap_or_default().trim_end_matches([':', ' ']).into(),
        step: group("step").and_then(count),
        total: group("total").and_then(count),
        loss: value(after, "loss"),
        rate: group("rate").and_then(per_second),
        remaining: group("left").and_then(clock),
    })
}

/// `step=12 loss=2.1` in any of the forms that trainers use: `completed step: 8, seconds: 1.5, ...,
/// loss: 2.1` of `MaxText`, Hugging Face's `{'loss': 1.2, ..., 'epoch': 0.3}`, `Step 12/100 ... loss 2.1`.
fn pairs(text: &str) -> Option<Progress<'_>> {
    let loss = value(text, "loss").or_else(|| value(text, "Loss"));
    let step = step_of(text);
    let mut progress = Progress { loss, ..Progress::default() };
    if let Some(raw_step) = step {
        let rest = &text[raw_step.as_ptr() as usize - text.as_ptr() as usize + raw_step.len()..];
        progress.step = count(raw_step);
        let of = rest.strip_prefix('/').or_else(|| rest.strip_prefix(" of ")).unwrap_or_default();
        progress.total = count(&of[..digits(of)]);
        let seconds = text.contains("completed step:").then(|| value(text, "seconds")).flatten();
        progress.rate = seconds.filter(|s| *s > 0.0).map(f64::recip);
    }
    let is_hugging_face = text.starts_with('{') && text.contains("'epoch':");
    let is_progress = match step {
        Some(_) => loss.is_some() || progress.total.is_some(),
        None => loss.is_some() && is_hugging_face,
    };
    is_progress.then_some(progress)
}

/// Whether a word before `/step` is a unit, of a duration or an amount per step: `ms/step=530`, unlike
/// `train/step=530`.
fn is_unit(word: &str) -> bool {
    let times = ["s", "sec", "secs", "second", "seconds", "ms", "time", "it"];
    let amounts = ["tok", "tokens", "samples", "examples", "flops"];
    times.iter().chain(&amounts).any(|unit| unit.eq_ignore_ascii_case(word))
}

/// The text of the step of the run: `global_step` may come with the step of an epoch.
fn step_of(text: &str) -> Option<&str> {
    let is_whole = |found: &str| number(found).is_some_and(|n| n.fract() == 0.0);
    let is_rate = |before: &str| {
        let words = before.strip_suffix('/').map(|of| of.rsplit(|c: char| !c.is_ascii_alphabetic()));
        words.and_then(|mut words| words.next()).is_some_and(is_unit)
    };
    let of_run = numbers(text, "global_step").find(|(_, found)| is_whole(found));
    let mut others = ["step", "Step"].into_iter().flat_map(|name| numbers(text, name));
    let step = of_run.or_else(|| others.find(|(before, found)| is_whole(found) && !is_rate(before)));
    step.map(|(_, found)| found)
}

/// The number after a name and `=`, `:` or a space, with or without quotes.
fn value(text: &str, name: &str) -> Option<f64> {
    numbers(text, name).next().and_then(|(_, found)| number(found))
}

/// The text before each occurrence of a name that a number follows, and the text of that number.
fn numbers<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    text.match_indices(name).filter_map(move |(at, _)| {
        let before = text[..at].bytes().last();
        if before.is_some_and(|b| b.is_ascii_alphanumeric() || b"-".contains(&b) || b == b'_') {
            return None;
        }
        let rest = text[at + name.len()..].trim_start_matches(['\'', '"']);
        let after = rest.trim_start_matches([' ', '=', ':']);
        if after.len() == rest.len() {
            return None;
        }
        let len = digits(after);
        let found = &after[..len];
        number(found).map(|_| (&text[..at], found))
    })
}

/// Length in bytes of the number at the beginning of a text, including `nan`, `-inf` and `1,200`.
fn digits(text: &str) -> usize {
    let unsigned = text.trim_start_matches(['-', '+']);
    let sign = text.len() - unsigned.len();
    for word in ["nan", "NaN", "infinity", "inf", "Inf"] {
        if unsigned.starts_with(word) {
            return sign + word.len();
        }
    }
    let is_part = |(at, b): (usize, u8)| {
        let bytes = unsigned.as_bytes();
        b.is_ascii_digit()
            || matches!(b, b'.' | b',') && bytes.get(at + 1).is_some_and(u8::is_ascii_digit)
            || matches!(b, b'e' | b'E')
                && at > 0
                && matches!(bytes.get(at + 1..at + 3), Some([b'0'..=b'9', ..] | [b'-' | b'+', b'0'..=b'9']))
            || matches!(b, b'-' | b'+') && at > 0 && matches!(bytes[at - 1], b'e' | b'E')
    };
    sign + unsigned.bytes().enumerate().take_while(|part| is_part(*part)).count()
}

fn number(text: &str) -> Option<f64> {
    if text.contains(',') { text.replace(',', "").parse().ok() } else { text.parse().ok() }
}

/// A count, also in tqdm's rounded form: `1.20k`.
fn count(text: &str) -> Option<u64> {
    let (text, factor) = match text.as_bytes().last()? {
        b'k' => (&text[..text.len() - 1], 1e3),
        b'M' => (&text[..text.len() - 1], 1e6),
        b'G' => (&text[..text.len() - 1], 1e9),
        b'T' => (&text[..text.len() - 1], 1e12),
        _ => (text, 1.0),
    };
    let n = number(text)? * factor;
    (n.is_finite() && n >= 0.0).then_some(n.round() as u64)
}

/// `4.5it/s` or `76.8s/it`, in steps per second.
fn per_second(text: &str) -> Option<f64> {
    let rate = number(&text[..digits(text)])?;
    let unit = text[digits(text)..].trim_start();
    let rate = match unit.split_once('/')? {
        ("s", _) if rate > 0.0 => rate.recip(),
        (of, "s") => rate * if of.starts_with('k') { 1e3 } else { 1.0 },
        _ => return None,
    };
    rate.is_finite().then_some(rate)
}

/// `31:40` or `1:05:16`. There is no form with days, so hours have no upper limit.
fn clock(text: &str) -> Option<Duration> {
    let parts: Option<Vec<u64>> = text.split(':').map(|part| part.parse().ok()).collect();
    let parts = parts.filter(|parts| (2..=3).contains(&parts.len()))?;
    let seconds = parts.iter().try_fold(0u64, |all, part| all.checked_mul(60)?.checked_add(*part))?;
    Some(Duration::from_secs(seconds))
}

/// The startup phase of a run before its first step. It can take many minutes without output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// The first batch was loaded; the first step begins with the compilation.
    FirstStep,
    /// JAX traces the step.
    Tracing,
    /// The step is lowered to HLO.
    Lowering,
    /// XLA compiles it.
    Compiling,
    /// The first step is done.
    Running,
}

impl Phase {
    /// The phase in words, for display.
    pub const fn label(self) -> &'static str {
        match self {
            Self::FirstStep => "first step",
            Self::Tracing => "tracing",
            Self::Lowering => "lowering",
            Self::Compiling => "compiling",
            Self::Running => "running",
        }
    }

    /// The phase that begins with a line of Levanter (`Trainer.train` and `_maybe_save_jaxpr` in
    /// `levanter/trainer.py`).
    pub fn of(line: &str) -> Option<Self> {
        const MARKS: [(&str, Phase); 5] = [
            ("starting first train step (includes JIT compilation)", Phase::FirstStep),
            ("Tracing train_step", Phase::Tracing),
            ("Lowering train_step", Phase::Lowering),
            ("Lowered train_step", Phase::Compiling),
            ("First train step completed", Phase::Running),
        ];
        MARKS.iter().find_map(|(mark, phase)| line.contains(mark).then_some(*phase))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Read<'a>(&'a str, Option<u64>, Option<u64>, Option<f64>, Option<f64>, Option<u64>);

    fn rounded<'a>(read: &'a Progress<'_>) -> Read<'a> {
        let rate = read.rate.map(|r| (r * 1e4).round() / 1e4);
        Read(&read.task, read.step, read.total, read.loss, rate, read.remaining.map(|d| d.as_secs()))
    }

    #[test]
    fn the_lines_of_common_trainers_are_read() {
        for (line, expected) in [
            // Levanter, from public reports of its users.
            (
                "Progress on:train 19.0it/70.0it rate:76.8s/it remaining:1:05:16 elapsed:31:40 postfix:loss=2.34",
                Read("train", Some(19), Some(70), Some(2.34), Some(0.013), Some(3916)),
            ),
            ("Progress on:train 1.00it/850it", Read("train", Some(1), Some(850), None, None, None)),
            ("Progress on:train -/30", Read("train", None, Some(30), None, None, None)),
            (
                "(train pid=7, ip=10.0.0.1) 2026-11-21 13:58:14,123 - levanter.tracker - INFO - Progress on:eval \
                 1.20kit/5.00kit rate:12.5it/s remaining:05:04 elapsed:01:36 postfix:-",
                Read("eval", Some(1200), Some(5000), None, Some(12.5), Some(304)),
            ),
            // MaxText, from its page on logs and metrics.
            (
                "completed step: 9, seconds: 5.667, TFLOP/s/device: 134.924, Tokens/s/device: 8672.758, \
                 total_weights: 196608, loss: 10.374",
                Read("", Some(9), None, Some(10.374), Some(0.1765), None),
            ),
            // tqdm, and Hugging Face's Trainer, which uses it.
            (
                "train:  45%|####5     | 45/100 [00:10<00:12,  4.5it/s, loss=2.3]",
                Read("train", Some(45), Some(100), Some(2.3), Some(4.5), Some(12)),
            ),
            (
                "Loading safetensors checkpoint shards: 100% Completed | 157/157 [34:25<00:00, 18.68s/it]",
                Read("", None, None, None, None, None),
            ),
            (
                "  1%|▏         | 1.2k/100k [00:10<?, ?it/s]",
                Read("", Some(1200), Some(100_000), None, None, None),
            ),
            ("tokenize: 120it [00:10, 11.9it/s]", Read("tokenize", Some(120), None, None, Some(11.9), None)),
            (
                "{'loss': 1.2345, 'grad_norm': 0.5, 'learning_rate': 3e-05, 'epoch': 0.31}",
                Read("", None, None, Some(1.2345), None, None),
            ),
            // Ray's own bars.
            (
                r#"{"__magic_token__": "__ray_tqdm_magic_token__", "x": 3, "pos": 0, "desc": "map", "total": 10,
                    "ip": "10.0.0.1", "pid": 7, "uuid": "ab", "closed": false}"#,
                Read("map", Some(3), Some(10), None, None, None),
            ),
            // Forms of other programs.
            ("step=12 loss=2.1", Read("", Some(12), None, Some(2.1), None, None)),
            (
                "INFO levanter.callbacks step 1,200 loss 2.3100 lr 3e-4",
                Read("", Some(1200), None, Some(2.31), None, None),
            ),
            (
                "Step 20, Loss: 2.5865, Elapsed Time: 0.10 seconds",
                Read("", Some(20), None, Some(2.5865), None, None),
            ),
            ("epoch 3 step 12/100 done", Read("", Some(12), Some(100), None, None, None)),
            ("\"step\": 4, \"loss\": -1.5e-3", Read("", Some(4), None, Some(-0.0015), None, None)),
            // The step of the run, not that of an epoch, a duration or a rate.
            ("global_step=1200 loss=2.1 sec/step=0.53", Read("", Some(1200), None, Some(2.1), None, None)),
            ("step 12/100 global_step 1200 loss 2.1", Read("", Some(1200), None, Some(2.1), None, None)),
            ("sec per step 0.53, step 12/100", Read("", Some(12), Some(100), None, None, None)),
            ("ms/step: 530, step: 12, loss: 2.1", Read("", Some(12), None, Some(2.1), None, None)),
            ("{'train/step': 12, 'train/loss': 2.1}", Read("", Some(12), None, Some(2.1), None, None)),
            ("trainer/global_step=12 train/loss=2.1", Read("", Some(12), None, Some(2.1), None, None)),
            ("global/step=12 loss=2.1", Read("", Some(12), None, Some(2.1), None, None)),
            ("training/step: 12, training/loss: 2.1", Read("", Some(12), None, Some(2.1), None, None)),
            ("tokens/step=4096 metrics/step=12 loss=2.1", Read("", Some(12), None, Some(2.1), None, None)),
            ("step=12.0 loss=2.1", Read("", Some(12), None, Some(2.1), None, None)),
            ("global_step=119.0 loss=2.1", Read("", Some(119), None, Some(2.1), None, None)),
        ] {
            let read = Patterns::default().read(line);
            assert_eq!(rounded(&read.unwrap_or_default()), expected, "{line}");
        }
    }

    #[test]
    fn other_lines_are_not_progress() {
        for line in [
            "",
            "saved checkpoint at step 1200",
            "the next step is to find the loss",
            "stepping 3, glossy 4",
            "train_step took 3 s, lossless 2",
            "step: none, loss: none",
            "Progress on:",
            "Progress on:train",
            "{'loss': 'high'}",
            "__ray_tqdm_magic_token__ }{",
            "__ray_tqdm_magic_token__ {\"x\": []}",
            "100%|",
            "it [",
            "step 99999999999999999999999999 loss",
            "loss=2.1 sec/step=0.53",
            "loss=2.1 ms/step=530",
            "loss=2.1 sec/step = 1.0",
            "loss=2.1 Time/Step: 3",
            "loss=2.1 0.5s/step 12",
        ] {
            assert_eq!(Patterns::default().read(line), None, "{line}");
        }
    }

    #[test]
    fn a_loss_that_is_not_finite_is_read() {
        let loss = |line: &str| Patterns::default().read(line).unwrap().loss.unwrap();
        assert!(loss("step 3 loss nan").is_nan() && loss("step=3 loss=NaN").is_nan());
        assert_eq!(loss("step 3, loss: -inf").to_string(), "-inf");
        assert_eq!(loss("{'loss': inf, 'epoch': 1.0}").to_string(), "inf");
    }

    #[test]
    fn patterns_from_the_settings_are_tried_first() {
        let own =
            Patterns::new([r"it(?<step>\d+)/(?<total>\d+) L(?<loss>\S+) (?<rate>[\d.]+)/s (?<task>\w+)"])
                .unwrap();
        let read = own.read("it5/10 Lnan 2.5/s dpo").unwrap();
        assert!(read.loss.is_some_and(f64::is_nan));
        assert_eq!((read.step, read.total, read.rate, &*read.task), (Some(5), Some(10), Some(2.5), "dpo"));
        assert_eq!(own.step("step 3 loss 2"), Some(3));
        let wrong = Patterns::new(["step (?<step>"]).unwrap_err();
        assert!(wrong.starts_with("Cannot read the progress pattern 'step (?<step>': "), "{wrong}");
        assert!(Patterns::new([r"\d+"]).unwrap_err().contains("captures neither step nor loss"));
    }

    #[test]
    fn lines_before_the_first_step_have_a_phase() {
        assert_eq!(
            Phase::of("First batch loaded in 12.3s, starting first train step (includes JIT compilation)..."),
            Some(Phase::FirstStep)
        );
        assert_eq!(Phase::of("Tracing train_step for jaxpr..."), Some(Phase::Tracing));
        assert_eq!(Phase::of("Lowered train_step in 3.1s"), Some(Phase::Compiling));
        assert_eq!(Phase::of("train_step"), None);
    }
}
