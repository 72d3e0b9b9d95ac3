//! Lines that report a saved checkpoint, and the step that it was saved at.

/// Words before `checkpoint` that report a saved one.
const VERBS: [&str; 5] = [
    "Saved checkpoint",
    "saved checkpoint",
    "Saved a checkpoint",
    "saved a checkpoint",
    "Saving model checkpoint",
];

/// The step of a checkpoint that a line reports as saved: `Some(None)` if the line does not contain the step, `None`
/// for any other line.
///
/// Recognized: `Saved checkpoint at step 500 to ...` and Levanter's
/// `Saved checkpoint to gs://.../step-500 for step 500` (`levanter/checkpoint.py`), `saved a checkpoint at step 500` of
/// `MaxText` (`MaxText/train.py`), and Hugging Face's `Saving model checkpoint to out/checkpoint-500`, which logs no
/// line when it has finished (`transformers/trainer.py`).
pub fn checkpoint(line: &str) -> Option<Option<u64>> {
    let text = super::prefix::prefixed(line).text;
    let (at, _) = text.match_indices("checkpoint").find(|(at, word)| {
        let until = &text[..at + word.len()];
        VERBS.iter().any(|verb| until.ends_with(verb)) && !until.ends_with("Last saved checkpoint")
    })?;
    let behind = &text[at..];
    let number = |from: usize| {
        let rest = behind[from..].trim_start_matches([' ', '-', '_', '=', ':']);
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        rest[..digits].parse::<u64>().ok()
    };
    let of = |word: &str| behind.match_indices(word).filter_map(|(at, _)| number(at + word.len())).last();
    Some(of("step").or_else(|| of("checkpoint")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_common_trainers_are_read() {
        for (line, step) in [
            ("INFO levanter.checkpoint Saved checkpoint at step 500 to gs://b/step-500 in 9.0s", Some(500)),
            (
                "(train pid=7, ip=10.0.0.1) 13:58:14 Saved checkpoint to gs://b/run/step-1200 for step 1200",
                Some(1200),
            ),
            ("saved a checkpoint at step 40", Some(40)),
            ("Saving model checkpoint to out/checkpoint-1500", Some(1500)),
            ("Saved checkpoint -> model.pt", None),
        ] {
            assert_eq!(checkpoint(line), Some(step), "{line}");
        }
        for line in [
            "Saving checkpoint to gs://b/step-1 for step 1",
            "Loading checkpoint from gs://b/step-100",
            "Last saved checkpoint: none",
            "checkpoint was not saved",
            "step 12 loss 3.1",
        ] {
            assert_eq!(checkpoint(line), None, "{line}");
        }
    }
}
