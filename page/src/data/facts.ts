// The part `boot`: texts and figures. It has the fields of `show --json` (docs/json.md) that the page shows. Whole numbers that a
// double does not hold are texts.

import type { Silences, Watched } from "./instants";

export type Int = number | string;

export interface Phase {
    readonly name: string;
    readonly start_ns: Int;
    readonly end_ns: Int;
    readonly error_ns: Int;
    readonly evidence: string;
}

export interface Row {
    readonly name: string;
    readonly detail?: string;
    readonly self_ns: Int;
    readonly total_ns: Int;
    readonly count: Int;
    /** True if only first calls have its time, so that it is the least that the row takes. */
    readonly first_calls_only?: boolean;
    readonly share?: number;
    readonly tracks: readonly string[];
}

export interface Initcall {
    readonly name: string;
    readonly start_ns: Int;
    readonly elapsed_ns: Int;
    /** The part that the boot path spent on its thread. */
    readonly path_ns: Int;
    readonly track: string;
}

export interface Process {
    readonly pid: Int;
    readonly depth: number;
    readonly name: string;
    readonly start_ns: Int;
    readonly end_ns: Int | null;
}

export interface SampledFunction {
    readonly name: string;
    readonly self_share: number;
    readonly self_error: number;
    readonly total_share: number;
    readonly total_error: number;
}

/** The samples of one event. */
export interface SampledEvent {
    readonly name: string;
    readonly samples: Int;
    /** The number of samples of equal weight that would have the same error. */
    readonly effective_samples: number;
    readonly by_period: boolean;
    readonly functions: readonly SampledFunction[];
}

export interface Summary {
    readonly outcome: string;
    readonly outcome_detail: string;
    readonly time_base: string;
    readonly unit: string;
    readonly subject: {
        readonly os: string;
        readonly kernel: string;
        readonly machine: string;
        readonly accelerator: string;
        readonly cpus: Int;
        readonly memory_bytes: Int;
    };
    readonly warnings: readonly string[];
    readonly silences: Silences | null;
    readonly watched: Watched | null;
    readonly sampled: { readonly events: readonly SampledEvent[] } | null;
    readonly total_ns: Int;
    readonly end: { readonly evidence: string; readonly error_ns: Int; readonly track: string | null } | null;
    readonly explained: number;
    readonly phases: readonly Phase[];
    readonly where: readonly Row[];
    readonly functions: readonly Row[];
    readonly where_all_threads: readonly Row[];
    readonly initcalls: readonly Initcall[];
    readonly processes: readonly Process[];
    readonly diagnostics: readonly { readonly severity: string; readonly text: string }[];
    readonly clocks: readonly { readonly name: string; readonly residual_ns: Int; readonly rate_from: string }[];
    readonly notes: readonly string[];
}

export interface Evidence {
    readonly track: string;
    readonly start_ns: Int;
    readonly end_ns: Int;
    readonly name: string;
    /** Its purpose, if a rule knows it. */
    readonly purpose?: string;
}

export interface Finding {
    readonly id: string;
    readonly title: string;
    readonly cost_ns: Int;
    readonly cost_low_ns: Int;
    readonly cost_high_ns: Int;
    readonly confidence: string;
    readonly evidence: readonly Evidence[];
    readonly evidence_count: number;
    readonly remedy: string;
    /** Changes that `try` can make, and the result of trying them, in words. */
    readonly to_try: readonly string[];
    readonly outcome: string | null;
    readonly seed: string;
}

export interface Facts {
    readonly schema: string;
    /** The recording's name. */
    readonly name: string;
    /** The number of boots in the page; this is one of them. */
    readonly boots: number;
    readonly summary: Summary;
    readonly things: readonly number[];
    readonly things_all_threads: readonly number[];
    readonly findings: {
        readonly findings: readonly Finding[];
        readonly found: { readonly noise_ns: Int; readonly together_ns: Int };
        /** Remarks on all findings, as the command prints them: what they save together, and how many more there are. */
        readonly remarks: readonly string[];
    } | null;
    /** The likely distance between this total and the next boot's. */
    readonly noise: string | null;
    readonly measured: readonly (readonly [string, string])[];
    /** The measured memory: name, time of the measurement, and bytes. */
    readonly memory?: readonly (readonly [string, string, Int])[];
    readonly how: readonly (readonly [string, string])[];
    /** True if a scheduler's trace says when each thread ran. */
    readonly is_traced: boolean;
    readonly spans: number;
    readonly console_lines: number;
    readonly kinds: readonly string[];
}

/** The version that this page reads. */
export const SCHEMA = "bootscope.page/1";
