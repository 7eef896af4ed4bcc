import type { Notice, PublicGraph, SetTable, Table, Word } from "./veilgraph.js";

/** The class that the neighbours point to, by subset selection; it protects any two lists. */
export interface NeighbourhoodClass {
  readonly sets: SetTable;
  readonly list?: undefined;
}

/**
 * Beliefs of the neighbours, added up, plus discrete Laplace noise; it protects one entry, and lists with a
 * cap.
 */
export interface NeighbourhoodHistogram {
  readonly sets?: undefined;
  readonly list?: undefined;
  readonly classCount: number;
  /** Words of 2 ** 53 for which a geometric variable goes on. */
  readonly more: number;
  /** Units of a belief. */
  readonly scale: number;
  /** Neighbours that count for each class at most; null for no limit. */
  readonly cap: number | null;
  /** Largest absolute count of an answer. */
  readonly largest: number;
}

/**
 * For each person, by randomized response, whether they are in the list; it protects one entry, and no whole
 * lists.
 */
export interface RandomizedNeighbourList {
  readonly sets?: undefined;
  /** Words by which a person is named or not: of two values, 1 is "in the list". */
  readonly list: Table;
  /** Number of people, each of whom has a row. */
  readonly people: number;
}

export type NeighbourhoodMechanism = NeighbourhoodClass | NeighbourhoodHistogram | RandomizedNeighbourList;

/** Epsilons of answers about a neighbour list, by the relation between two lists. */
export interface ListLoss {
  /** Any two lists of any length; Infinity if whole lists are not protected. */
  readonly any_lists: number;
  /** Two lists, one with an entry more. */
  readonly one_entry: number;
  /** A relationship that both ends report, or neither. */
  readonly one_relationship: number;
}

/** The document of a wave that was verified. */
export interface WaveQuestion {
  readonly id: string;
  readonly graph: PublicGraph;
  readonly notice: Notice;
  readonly closes: Date;
  /** Ids of the documents before this one; the first one names the series. */
  readonly documents: readonly string[];
  readonly series: string;
  /** Number of the wave, from 1. */
  readonly wave: number;
  /**
   * Number of waves of which each person answers one, by `turnOf`; null where everybody answers every wave.
   */
  readonly turns: number | null;
  /** Name of the label. */
  readonly name: string;
  readonly classes: readonly string[];
  /** Number of people. */
  readonly nodes: number;
  /** SHA-256 of the file with the names of all people. */
  readonly people: string;
  /** SHA-256 of the table of beliefs; null where the list itself is asked, which needs none. */
  readonly table: string | null;
  readonly asked: NeighbourhoodMechanism;
  /**
   * Epsilons that the integers give; those of the label are at user level, any two records with the same
   * list. Those of the lists are of all waves so far: their sum or, in turns, the largest.
   */
  readonly costs: { readonly wave: ListLoss; readonly lists: ListLoss; readonly label: number };
}

/** The file of people, after it was checked. */
export interface PublishedPeople {
  /** Row of the first person of each bucket, and the number of people after the last one. */
  readonly starts: Uint32Array;
  /** Which part of the hash the fingerprints of each bucket are. */
  readonly parts: Uint8Array;
  /** Three bytes for each person. */
  readonly fingerprints: Uint8Array;
}

/** What is published for a wave about beliefs, after it was checked. */
export interface Published extends PublishedPeople {
  readonly classCount: number;
  readonly scale: number;
  readonly codes: DataView;
}

/**
 * Verify the document of a wave. One that is altered, closed, too revealing or untrue is refused.
 *
 * `maxEpsilon` is the limit for any two lists. `maxEntryEpsilon` is the limit for one entry; without it, an
 * answer that does not protect whole lists is refused.
 */
export function verifyWave(
  text: string,
  limits: { maxEpsilon: number; maxEntryEpsilon?: number | null; now?: Date },
): Promise<WaveQuestion>;

/**
 * Read the file of people and the table of a wave; others, and damaged ones, are refused. A wave may have no
 * table.
 */
export function readPublished<Beliefs extends Uint8Array | null>(
  question: WaveQuestion,
  people: Uint8Array,
  table: Beliefs,
): Promise<Beliefs extends Uint8Array ? Published : PublishedPeople>;

/**
 * Answer a wave about neighbours, who are given by name: a set of classes, a count for each class, or the
 * text of a randomized list. Other sources of words are for tests.
 */
export function randomizeNeighbours(
  question: Pick<WaveQuestion, "asked">,
  published: PublishedPeople | Published,
  neighbours: Iterable<string>,
  word?: Word,
): Promise<number[] | string>;

/** Refuse a person, who is given by name and is not in the file of people. */
export function checkPerson(name: string, published: PublishedPeople): Promise<void>;

/** Read a list of names, each a text; it need not be of people who are published. */
export function namesIn(neighbours: Iterable<string>): string[];

/**
 * Return the names that are not in the file of people, each once: for the person alone, and after the draw.
 */
export function unlistedIn(published: PublishedPeople, neighbours: Iterable<string>): Promise<string[]>;

/**
 * Return the rows of the neighbours, who are given by name, in ascending order; who is not there has none.
 */
export function rowsOf(published: PublishedPeople, neighbours: Iterable<string>): Promise<number[]>;

/** Add up the beliefs of the neighbours, which are given by name; one sum for each class, in units. */
export function sumsOf(published: Published, neighbours: Iterable<string>): Promise<number[]>;

/** Randomize the rows of a list: a bit for each person, as text. Other sources of words are for tests. */
export function randomizeRows(
  question: { readonly asked: RandomizedNeighbourList },
  rows: Iterable<number>,
  word?: Word,
): string;

/** Return the rows of the people whom the text of an answer names, in ascending order. */
export function rowsIn(text: string, people: number): number[];

/**
 * Randomize the sums of a list: a set of classes, or a count for each class. Other sources of words are for
 * tests.
 */
export function randomizeSums(
  question: Pick<WaveQuestion, "asked">,
  sums: readonly number[],
  word?: Word,
): number[];

/** Return the wave that a person answers in a series in turns, from 1. */
export function turnOf(node: string, turns: number): Promise<number>;

/** Return the epsilons of one answer. */
export function listLoss(mechanism: NeighbourhoodMechanism): ListLoss;

/** Return the units of a belief about some classes. */
export function finestScale(classCount: number): number;
