/** An error that holds no private value. Its message says what is wrong. */
export class VeilgraphError extends Error {}

/** Randomizer of one value: words that name the truth, words of each other value, and the size of a set. */
export interface Table {
  readonly domainSize: number;
  readonly yes: number;
  readonly no: number;
  readonly setSize?: number;
}

/** Randomizer of one value by sets of `setSize` of the `domainSize` values. */
export interface SetTable extends Table {
  readonly setSize: number;
}

/** One declared column: its values, or the edges of its bins and whether its numbers are whole. */
export type Column =
  | { readonly name: string; readonly values: readonly string[]; readonly edges?: undefined }
  | {
      readonly name: string;
      readonly edges: readonly number[];
      readonly whole: boolean;
      readonly values?: undefined;
    };

/** Texts of one question in one language; what is left out is shown as the schema has it. */
export interface QuestionTexts {
  readonly text?: string;
  readonly help?: string;
  readonly answers?: Readonly<Record<string, string>>;
}

/** Texts of a campaign in one language. */
export interface Translation {
  readonly purpose?: string;
  readonly contact?: string;
  readonly note?: string;
  /** Information duties (Article 13 GDPR): who is responsible, on what basis, who receives the reports. */
  readonly controller?: string;
  readonly data_protection_officer?: string;
  readonly legal_basis?: string;
  readonly recipients?: string;
  /** What is added to the rights that everybody has. */
  readonly rights?: string;
  readonly supervisory_authority?: string;
  readonly questions?: Readonly<Record<string, QuestionTexts>>;
}

/** What a campaign says about the public graph; a series keeps it in all its documents. */
export interface PublicGraph {
  readonly nodes: number;
  readonly sha256: string;
}

/** The part of a campaign that may change; each change raises its version. Times are UTC, in ISO 8601. */
export interface Notice {
  readonly version: number;
  /** SHA-256 of its canonical form; the campaign's id, in formats that bind reports to the notice. */
  readonly sha256: string;
  readonly purpose: string;
  readonly contact: string;
  readonly closes: string;
  /** When the organiser promises to delete the reports. */
  readonly retention: string | null;
  readonly note: string;
  readonly round: number | null;
  /** By language, a BCP 47 tag. */
  readonly texts: Readonly<Record<string, Translation>>;
  /** The language for people of all others; null without texts. */
  readonly language: string | null;
  /** What the organisers know without asking, and use beside the reports: the kind of each column by name. */
  readonly public?: Readonly<Record<string, "number" | "category" | "date" | "embedding" | "link" | null>>;
}

/** A campaign that was verified. */
export interface Question {
  readonly id: string;
  readonly graph: PublicGraph;
  readonly notice: Notice;
  readonly closes: Date;
  readonly columns: readonly Column[];
  readonly group: number;
  readonly features: {
    readonly sizes: readonly number[];
    readonly sampled: number;
    readonly joint?: boolean;
    /** Of a series: tables of a round's report about each feature; `tables` are for permanent answers. */
    readonly series?: readonly Table[];
    readonly tables: readonly Table[] | Readonly<Record<number, Table>>;
    /** Epsilon of all features together: user level, any two records. */
    readonly epsilon: number;
    readonly levels: readonly number[];
  } | null;
  readonly label: { readonly name: string; readonly values: readonly string[]; readonly table: Table } | null;
  /**
   * A series: the label's table is for permanent answers, this one for the report of each round about them.
   */
  readonly rounds: {
    readonly count: number;
    /** Different values of a person that are answered, for each question. */
    readonly values: number;
    /** Null if no label is asked for. */
    readonly table: Table | null;
    /** Epsilon of the label for any two histories; 0 without one. */
    readonly labelEpsilon: number;
    /** Epsilons of all rounds, features and label together, by the relation between two histories. */
    readonly costs: {
      readonly any_histories: number;
      readonly same_pattern: number;
      readonly unchanged: number;
    };
  } | null;
  /** What people are asked about neighbours after this label; null if nothing follows. */
  readonly follows: "waves" | "lists" | null;
  /** Epsilons of the features and of the label, at user level; 0 where they are not asked for. */
  readonly parts: { readonly features: number; readonly label: number };
  /**
   * What a report reveals at most, at user level: any two records; all rounds of a series, any two histories.
   */
  readonly epsilon: number;
}

/**
 * Answers by the names of the campaign; null leaves a question out. Only a label that is left out is visible.
 */
export type RawRecord = Readonly<Record<string, string | number | boolean | null>>;

/** Codes of the features, null for one that is left out; null where they are not collected. */
export type Features = readonly (number | null)[] | null;

/** Randomized features; null stands for a feature that was not sampled. */
export type ReportedFeatures = readonly (number | null)[] | null;

/** Randomized label: one class, or a set of classes. */
export type ReportedLabel = number | readonly number[] | null;

/** Draws an integer that is uniform below 2 ** 53. */
export type Word = () => number;

/** Verify a campaign. One that is altered, closed, too revealing or untrue is refused. */
export function verify(text: string, limits: { maxEpsilon: number; now?: Date }): Promise<Question>;

/**
 * Return the epsilon of a campaign, for any two histories, where a device does not remember so many answered
 * rounds: permanent answers may have been drawn anew for each of these.
 */
export function costWithLost(question: Question, lost: number): number;

/** Return the codes of features and label of a raw record. */
export function encode(question: Question, record: RawRecord): [Features, number | null];

/** Randomize codes with the system's randomness. Other sources of words are for tests. */
export function randomize(
  question: Question,
  features: Features,
  label: number | null,
  word?: Word,
): [ReportedFeatures, ReportedLabel];

/**
 * What a device remembers of a question in a series; private, because permanent answers are kept by value.
 */
export interface QuestionMemory {
  /** Of a feature, the number of its values stands for an answer that was left out. */
  readonly answers: Readonly<Record<number, number>>;
  readonly current: number | null;
  readonly reports: Readonly<Record<number, number>>;
}

/** What a device remembers of a series: of the label, and of each feature that was chosen. */
export interface Memory extends QuestionMemory {
  readonly features?: Readonly<Record<number, QuestionMemory>>;
}

/** What a device remembers before the first round. */
export const UNANSWERED: QuestionMemory;

/** Return the numbers of the rounds that a device has answered. */
export function roundsOf(memory: Memory): number[];

/** Add the report of the open round to the memory; a round is never drawn twice. */
export function randomizeRound(
  question: Question,
  memory: Memory,
  features: Features,
  label: number | null,
  word?: Word,
): Memory;

/** Throw a VeilgraphError unless a condition holds. */
export function need(condition: unknown, message?: string): asserts condition;

/**
 * Write a report as it is sent: its canonical form, and spaces up to the length of the longest report of the
 * campaign. A shorter body would tell who watches the network something of the answers. A wave about
 * neighbours is a question, too.
 */
export function padded(question: { readonly id: string }, report: { readonly node: string }): string;

/** Write canonical JSON: sorted keys, no spaces, ASCII only. */
export function canonical(value: unknown): string;

/** Parse canonical JSON; any other text is undefined. */
export function parse(text: string): unknown;

/** Return the SHA-256 of a text, or of bytes, in hexadecimal digits. */
export function sha256(text: string | Uint8Array): Promise<string>;

/** Parts of the grammar of documents, and of randomizers, for `veilgraph/neighbours`; they may change. */
export const internals: Readonly<Record<string, unknown>>;
