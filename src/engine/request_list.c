#include "engine/request_list.h"

void engine_list_push_back(engine_request_list *l, engine_request *r) {
    r->next = NULL;
    if (l->tail)
        l->tail->next = r;
    else
        l->head = r;
    l->tail = r;
    l->n++;
}

void engine_list_push_front(engine_request_list *l, engine_request *r) {
    r->next = l->head;
    l->head = r;
    if (!l->tail) l->tail = r;
    l->n++;
}

engine_request *engine_list_pop_front(engine_request_list *l) {
    engine_request *r = l->head;

    if (!r) return NULL;
    l->head = r->next;
    if (!l->head) l->tail = NULL;
    r->next = NULL;
    l->n--;
    return r;
}

void engine_list_remove(engine_request_list *l, engine_request *r) {
    engine_request *prev = NULL;

    for (engine_request *p = l->head; p && p != r; p = p->next) prev = p;
    if (prev)
        prev->next = r->next;
    else
        l->head = r->next;
    if (l->tail == r) l->tail = prev;
    r->next = NULL;
    l->n--;
}
