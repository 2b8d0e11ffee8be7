// A choice of one of a few, as buttons side by side.
interface Props<T extends string> {
    readonly label: string;
    readonly all: readonly (readonly [T, string])[];
    readonly is: T;
    readonly pick: (one: T) => void;
}

export function Choice<T extends string>({ label, all, is, pick }: Props<T>) {
    return (
        <span class="choice" role="group" aria-label={label}>
            {all.map(([one, text]) => (
                <button type="button" key={one} aria-pressed={one === is} onClick={() => pick(one)}>
                    {text}
                </button>
            ))}
        </span>
    );
}
