// Filters the rows of a view by a regular expression. An invalid expression is reported.
import { expression, type Store } from "../state";

export function Filter({ store }: { store: Store }) {
    const { filter } = store.state;
    const isBroken = filter !== "" && !expression(filter);
    return (
        <>
            <label>
                filter{" "}
                <input
                    id="filter"
                    type="search"
                    size={24}
                    value={filter}
                    placeholder="regular expression"
                    aria-invalid={isBroken}
                    onInput={event => store.set({ filter: event.currentTarget.value })}
                />
            </label>
            {isBroken ? (
                <span class="bad" role="status">
                    not a regular expression: all rows are shown
                </span>
            ) : null}
        </>
    );
}
