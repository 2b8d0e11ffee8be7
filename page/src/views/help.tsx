// The list of keys, and what charts show.
import { BENCH_KEYS, KEYS, LAKE_KEYS } from "../keys";
import type { Store } from "../state";

export function Help({ store }: { store: Store }) {
    return (
        <div class="help" role="dialog" aria-modal="true" aria-label="Keys">
            <h2>Keys</h2>
            <dl>
                {{ boots: KEYS, bench: BENCH_KEYS, lake: LAKE_KEYS }[store.subject].map(([keys, does]) => (
                    <div key={keys}>
                        <dt>
                            <kbd>{keys}</kbd>
                        </dt>
                        <dd>{does}</dd>
                    </div>
                ))}
            </dl>
            {store.subject !== "boots" ? null : (
                <>
                    <p>
                        Ctrl and the wheel zoom, shift and the wheel move. Dragging moves the chart; along its axis of time, or with shift,
                        it selects a range. A click on a span and one with shift on another select the time between the two. In the strip of
                        phases, dragging chooses the window and a double click shows all.
                    </p>
                    <p>
                        In a track's strip: a full bar is running, half a bar is runnable without a CPU, a line is waiting. The boot path is
                        the line across all tracks. An arrow shows where it goes on in another thread: to the one that is waited for, and
                        back to the one that waited.
                    </p>
                    <p>
                        Green ran, amber could have run and had no CPU, blue waited for a disk, pink for another device or a timer, grey for
                        anything else. The strip below the phases has the same colours for the boot path. Spans have a colour by their kind,
                        and several tones so that neighbours differ.
                    </p>
                    <p>
                        “(indirect call)”: the caller called the function through a pointer. “f (a call of it)”: a function that f called,
                        whose name is not known. “· runqueue”: it had the CPU while who the boot waited for could have run.
                    </p>
                </>
            )}
            <button type="button" onClick={() => store.set({ help: false })} ref={button => button?.focus()}>
                close
            </button>
        </div>
    );
}
