/* The examples of calls in the description of the API. The compiler reads the file with C's #embed, so a changed file is compiled
   again. `Tools/examples` writes the file. */
#include "CExamples.h"

static const unsigned char examples[] = {
#embed "files/examples.jsonl"
};

const unsigned char *onym_examples(void) { return examples; }

size_t onym_examples_count(void) { return sizeof examples; }
