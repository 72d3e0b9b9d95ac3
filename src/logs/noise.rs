//! Lines that every run writes and that are irrelevant.

use regex::RegexSet;
use std::sync::LazyLock;

/// A kind of line that a viewer may hide behind a count.
#[derive(Debug, PartialEq, Eq)]
pub struct Noise {
    /// A regular expression that matches it, anywhere in the line.
    pub pattern: &'static str,
    /// The program that writes it.
    pub from: &'static str,
    /// Why it is irrelevant.
    pub why: &'static str,
}

/// Known noise. Nothing here can be the cause of a failure: lines that only seem harmless are not included.
pub const KNOWN_NOISE: [Noise; 18] = [
    Noise {
        pattern: r"All log messages before absl::InitializeLog\(\) is called are written to STDERR",
        from: "absl",
        why: "a program that does not set up absl's logging; grpc/grpc#38703",
    },
    Noise {
        pattern: r"fork_posix\.cc:\d+\] Other threads are currently calling into gRPC, skipping fork\(\) handlers",
        from: "gRPC",
        why: "a subprocess was started; grpc/grpc#38490",
    },
    Noise {
        pattern: r"os\.fork\(\) was called\. os\.fork\(\) is incompatible with multithreaded code, and JAX is multithreaded",
        from: "JAX",
        why: "a subprocess was started, which is safe if it executes a program; jax/_src/xla_bridge.py",
    },
    Noise {
        pattern: r"Unable to initialize backend '(cuda|rocm|tpu|interpreter|plugin|METAL)': (?:NOT_FOUND|INTERNAL: Failed to open libtpu\.so|module '.*' has no attribute|UNIMPLEMENTED|Unable to find platform)",
        from: "JAX",
        why: "this machine has no such device; jax/_src/xla_bridge.py",
    },
    Noise {
        pattern: r"TPU backend initialization is taking more than \d",
        from: "JAX",
        why: "other hosts of the slice have not started yet; the next lines show whether they do",
    },
    Noise {
        pattern: r"(?:cuda_dnn|cuda_fft|cuda_blas)\.cc:\d+\] Unable to register cu\w+ factory",
        from: "TensorFlow",
        why: "TensorFlow is imported together with JAX or PyTorch; tensorflow/tensorflow#62075",
    },
    Noise {
        pattern: r"computation_placer\.cc:\d+\] computation placer already registered",
        from: "XLA",
        why: "TensorFlow is imported together with JAX; as above",
    },
    Noise {
        pattern: r"cpu_feature_guard\.cc:\d+\] This TensorFlow binary is optimized",
        from: "TensorFlow",
        why: "a hint for people who build TensorFlow",
    },
    Noise {
        pattern: r"TF-TRT Warning: Could not find TensorRT",
        from: "TensorFlow",
        why: "TensorRT is for inference on GPUs",
    },
    Noise {
        pattern: r"(?:cudart_stub|cuda_executor|cuda_diagnostics)\.cc:\d+\].*(?:Could not find cuda drivers|failed call to cuInit|Ignore above cudart dlerror)",
        from: "TensorFlow",
        why: "this machine has no GPU",
    },
    Noise {
        pattern: r"libtpu\.so already in used? by (?:another )?process.*Not attempting to load libtpu\.so",
        from: "TensorFlow",
        why: "a library tries to use the TPU of the training process; pytorch/xla#3214",
    },
    Noise {
        pattern: r"Transparent hugepages are not enabled",
        from: "JAX",
        why: "a hint on the speed of startup; jax/_src/cloud_tpu_init.py",
    },
    Noise {
        pattern: r"tpu_hal\.cc:\d+\] Registered plugin from module",
        from: "libtpu",
        why: "startup, at the level of information",
    },
    Noise {
        pattern: r"tcmalloc: large alloc \d+ bytes",
        from: "tcmalloc",
        why: "a large allocation that succeeded",
    },
    Noise {
        pattern: r"Ray deduplicates logs by default\. Set RAY_DEDUP_LOGS=0",
        from: "Ray",
        why: "explains its own mark; the lines themselves are in the workers' files",
    },
    Noise {
        pattern: r"Tip: In future versions of Ray, Ray will no longer override accelerator visible devices",
        from: "Ray",
        why: "a notice about a later version; ray/_private/worker.py",
    },
    Noise {
        pattern: r"file_cache is only supported with oauth2client<4\.0\.0",
        from: "google-api-python-client",
        why: "a cache that is not used; googleapiclient/discovery_cache",
    },
    Noise {
        pattern: r"huggingface/tokenizers: The current process just got forked, after parallelism has already been used",
        from: "Hugging Face",
        why: "tokenizers stop using threads in the subprocess",
    },
];

/// The kind of noise of a line; `None` if it may be relevant.
pub fn noise(line: &str) -> Option<&'static Noise> {
    static PATTERNS: LazyLock<RegexSet> =
        LazyLock::new(|| RegexSet::new(KNOWN_NOISE.iter().map(|noise| noise.pattern)).unwrap_or_default());
    let first = PATTERNS.matches(line).iter().next()?;
    KNOWN_NOISE.get(first)
}

#[cfg(test)]
mod tests {
    use super::super::fault::fault;
    use super::*;

    #[test]
    fn known_noise_is_found_and_nothing_else() {
        for line in [
            "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR",
            "I0000 00:00:1731576742.280168 13509 fork_posix.cc:77] Other threads are currently calling into gRPC, \
             skipping fork() handlers",
            "E0000 00:00:1731.1 7 cuda_dnn.cc:8310] Unable to register cuDNN factory: Attempting to register factory for",
            "/usr/lib/python3.11/subprocess.py:1885: RuntimeWarning: os.fork() was called. os.fork() is incompatible \
             with multithreaded code, and JAX is multithreaded, so this will likely lead to a deadlock.",
            "xla_bridge.py:841] Unable to initialize backend 'tpu': INTERNAL: Failed to open libtpu.so: libtpu.so: \
             cannot open shared object file: No such file or directory",
            "I1114 09:32:22.280168 13509 tpu_hal.cc:448] Registered plugin from module: sdc_checker_callback",
            "libtpu.so already in used by another process. Not attempting to load libtpu.so in this process.",
            "tcmalloc: large alloc 13261799424 bytes == 0x53d90000 @  0x7efe22acb680",
        ] {
            assert!(noise(line).is_some(), "{line}");
            assert_eq!(fault(line), None, "noise is never a cause: {line}");
        }
        for line in [
            "RuntimeError: Unable to initialize backend 'tpu': ABORTED: The TPU is already in use by process with pid 7",
            "E0926 17:26:32.075402  157988 coordination_service_agent.cc:332] Polled an error",
            "step 3 loss 2.1",
            "",
        ] {
            assert_eq!(noise(line), None, "{line}");
        }
    }

    #[test]
    fn every_pattern_compiles_and_has_a_reason() {
        assert_eq!(
            RegexSet::new(KNOWN_NOISE.iter().map(|noise| noise.pattern)).unwrap().len(),
            KNOWN_NOISE.len()
        );
        assert!(KNOWN_NOISE.iter().all(|noise| !noise.from.is_empty() && !noise.why.is_empty()));
    }
}
