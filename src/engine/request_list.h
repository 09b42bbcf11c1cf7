/* Requests in a row, linked through themselves: each is in one list at most. */
#ifndef ENGINE_REQUEST_LIST_H
#define ENGINE_REQUEST_LIST_H

#include "engine/request.h"

typedef struct engine_request_list {
    engine_request *head, *tail;
    uint32_t n;
} engine_request_list;

void engine_list_push_back(engine_request_list *l, engine_request *r);
void engine_list_push_front(engine_request_list *l, engine_request *r);
engine_request *engine_list_pop_front(engine_request_list *l); /* NULL: there is none */
void engine_list_remove(engine_request_list *l, engine_request *r);

#endif
